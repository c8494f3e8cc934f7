// Keys that stand in a plugin's block and are read by another part: the lease of holds stands under `metering`, and the
// ledger reads it. The part declares the keys, the plugin puts them into its schema, and nobody passes values on.

import type { Config } from './config.ts'
import { z } from './schema.ts'

export interface Settings<S extends z.ZodRawShape> {
  /** For the plugin's schema, at the place where the reference is to have them. */
  readonly shape: S
  /** The values in a configuration; the defaults when the plugin is off. */
  of(config: Pick<Config, 'plugins'>): z.output<z.ZodObject<S>>
}

/** Each key must have a default. */
export function settingsOf<S extends z.ZodRawShape>(plugin: string, shape: S): Settings<S> {
  const schema = z.object(shape)
  const defaults = schema.parse({})
  return {
    shape,
    // The loader has parsed the block with the plugin's schema, and that has these keys.
    of: ({ plugins }) => (plugins.get(plugin) as typeof defaults | undefined) ?? defaults,
  }
}
