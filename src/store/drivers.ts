// The kinds of stores that there are, by the names of their blocks under `store:` in gateway.yaml. Opens the configured
// one, with every call's time measured, and answers what else the gateway asks of its driver.

import type { z } from '../config/schema.ts'
import type { Metrics } from '../metrics.ts'
import { disk } from './disk-driver.ts'
import { s3 } from './s3-driver.ts'
import type { DriverOptions, ObjectStore, StoreDriver } from './store.ts'

/** In the order in which the reference has them. */
export const drivers = { disk, s3 } as const satisfies Readonly<Record<string, object>>

type Drivers = typeof drivers

/** One block, under the name of its driver. */
export type StoreConfig = {
  readonly [Name in keyof Drivers]: { readonly [One in Name]: z.output<Drivers[Name]['keys']> }
}[keyof Drivers]

type StoreKeys = { readonly [Name in keyof Drivers]: z.ZodOptional<Drivers[Name]['keys']> }

/** For the schema of gateway.yaml: every driver's block, none of them required. */
export function storeKeys(): StoreKeys {
  const shape = Object.entries(drivers).map(([name, { keys }]) => [
    name,
    keys.optional().describe(keys.description ?? ''),
  ])
  return Object.fromEntries(shape) as StoreKeys
}

/** The one driver that a configuration names, and what the driver's keys have made of its block. */
export function driverOf(config: StoreConfig): {
  readonly driver: StoreDriver
  readonly settings: unknown
} {
  const all = new Map<string, StoreDriver>(Object.entries(drivers) as [string, StoreDriver][])
  const [name = '', settings] = Object.entries(config)[0] ?? []
  const driver = all.get(name)
  if (!driver) throw new Error(`there is no store ${name}`)
  return { driver, settings }
}

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
