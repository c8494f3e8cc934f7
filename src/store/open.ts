// Opens the configured store, with every call's time measured, and answers what else the gateway asks of its driver.

import type { Metrics } from '../metrics.ts'
import type { DriverOptions } from './driver.ts'
import { driverOf } from './drivers.ts'
import type { StoreConfig } from './drivers.ts'
import type { ObjectStore } from './store.ts'

export interface OpenOptions {
  readonly metrics: Pick<Metrics, 'storeSeconds'>
}

export async function openStore(
  config: StoreConfig,
  { metrics }: OpenOptions,
): Promise<ObjectStore> {
  return measured(await openDriver(config), metrics.storeSeconds)
}

/** Opens it without measuring. */
export async function openDriver(
  config: StoreConfig,
  options: DriverOptions = {},
): Promise<ObjectStore> {
  const { driver, settings } = driverOf(config)
  return driver.open(settings, options)
}

const socketBytes = 2 * 1024 * 1024

/** The most memory that an upload takes, whatever its length. */
export function uploadMemoryBytes(config: StoreConfig): number {
  const { driver, settings } = driverOf(config)
  return socketBytes + (driver.uploadBytes?.(settings) ?? 0)
}

/** The texts of its configuration that must never be logged. */
export function storeSecrets(config: StoreConfig): readonly string[] {
  const { driver, settings } = driverOf(config)
  return driver.secrets?.(settings) ?? []
}

/** `read` is measured until it is open; then the bytes come as fast as the client takes them. */
function measured(store: ObjectStore, seconds: Metrics['storeSeconds']): ObjectStore {
  const timed = async <T>(op: string, run: () => Promise<T>): Promise<T> => {
    const end = seconds.startTimer({ op })
    try {
      return await run()
    } finally {
      end()
    }
  }
  const { presign } = store
  return {
    put: (name, content, options) => timed('put', () => store.put(name, content, options)),
    get: (name) => timed('get', () => store.get(name)),
    read: (name, range) => timed('read', () => store.read(name, range)),
    remove: (name) => timed('remove', () => store.remove(name)),
    abandon: (name) => timed('abandon', () => store.abandon(name)),
    list: (prefix) => timed('list', () => store.list(prefix)),
    unfinished: (prefix) => timed('unfinished', () => store.unfinished(prefix)),
    ...(presign && { presign: (name, options) => timed('presign', () => presign(name, options)) }),
    close: () => store.close(),
  }
}
