// The kinds of stores that there are, by the names of their blocks under `store:` in gateway.yaml.

import type { z } from '../config/schema.ts'
import { disk } from './disk-driver.ts'
import type { StoreDriver } from './driver.ts'
import { s3 } from './s3-driver.ts'

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
