// Opens the configured store, with every call's time measured. The S3 driver is loaded only when it is used: its SDK
// takes 90 ms to load.

import type { StoreConfig } from '../config/config.ts'
import type { Metrics } from '../metrics.ts'
import { diskStore } from './disk.ts'
import type { ObjectStore } from './store.ts'

export interface OpenOptions {
  readonly metrics: Pick<Metrics, 'storeSeconds'>
}

export async function openStore(
  config: StoreConfig,
  { metrics }: OpenOptions,
): Promise<ObjectStore> {
  return measured(await driver(config), metrics.storeSeconds)
}

const socketBytes = 2 * 1024 * 1024

/** The most memory that an upload takes, whatever its length. */
export function uploadMemoryBytes(config: StoreConfig): number {
  if ('disk' in config) return socketBytes
  return config.s3.partBytes * config.s3.concurrency + socketBytes
}

async function driver(config: StoreConfig): Promise<ObjectStore> {
  if ('disk' in config) return diskStore(config.disk.path, config.disk.reserveBytes)
  const { s3Store } = await import('./s3.ts')
  return s3Store(config.s3)
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
