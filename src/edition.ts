// One configuration with its plugins, from its set-up until the last exchange that began with it has ended. A reload opens
// the next edition beside it; exchanges that run stay in theirs.

import { messageOf } from './errors.ts'
import type { Gateway, NamedRunning, Plugin, Running } from './plugin.ts'
import { within } from './sharing/patience.ts'

export class Edition {
  readonly gateway: Gateway
  readonly plugins: readonly NamedRunning[]
  readonly #closers: AsyncDisposableStack
  readonly #onClosed: (edition: Edition, error?: unknown) => void
  #exchanges = 0
  #isRetired = false
  #closing: Promise<void> | undefined

  private constructor(gateway: Gateway, { plugins, closers, onClosed }: EditionParts) {
    this.gateway = gateway
    this.plugins = plugins
    this.#closers = closers
    this.#onClosed = onClosed
  }

  /** Sets up each plugin that is not switched off, in order. When one refuses, those before it are closed. */
  static async open(
    gateway: Gateway,
    list: readonly Plugin[],
    onClosed: EditionParts['onClosed'],
  ): Promise<Edition> {
    const closers = new AsyncDisposableStack()
    const patience = patienceOf()
    const plugins: NamedRunning[] = []
    try {
      for (const plugin of list) {
        if (!gateway.config.plugins.has(plugin.name)) continue
        const one = await setUp(plugin, gateway)
        closers.defer(() => close(one, plugin.name, patience()))
        plugins.push({ ...one, name: plugin.name })
      }
    } catch (refusal) {
      // The refusal is told, and not what then fails to close.
      await closers.disposeAsync().catch(() => undefined)
      throw refusal
    }
    return new Edition(gateway, { plugins, closers, onClosed })
  }

  /** Called when an exchange begins. */
  enter(): void {
    this.#exchanges++
  }

  /** Called when an exchange has ended. */
  leave(): void {
    this.#exchanges--
    this.#closeIfDone()
  }

  /** No exchange begins any more. */
  retire(): void {
    this.#isRetired = true
    this.#closeIfDone()
  }

  /** Closes the plugins, the last one first, even if exchanges run. Rejects with what a plugin throws. */
  close(): Promise<void> {
    return (this.#closing ??= this.#closers.disposeAsync().then(
      () => this.#onClosed(this),
      (error: unknown) => {
        this.#onClosed(this, error)
        throw error
      },
    ))
  }

  #closeIfDone(): void {
    if (this.#isRetired && this.#exchanges === 0) this.close().catch(() => undefined)
  }
}

interface EditionParts {
  readonly plugins: readonly NamedRunning[]
  readonly closers: AsyncDisposableStack
  readonly onClosed: (edition: Edition, error?: unknown) => void
}

/** The plugin's set-up failed: it refuses the configuration. */
export class PluginRefusal extends Error {
  override readonly name = 'PluginRefusal'
  readonly plugin: string

  constructor(plugin: string, cause: unknown) {
    super(messageOf(cause), { cause })
    this.plugin = plugin
  }
}

/** Less than the 20 s for which a supervisor waits until a worker has prepared a reload: the worker can say which plugin hangs. */
const setUpMs = 15_000

async function setUp(plugin: Plugin, gateway: Gateway): Promise<Running> {
  const setting = settingUp(plugin, gateway)
  try {
    return await within(setting, setUpMs, `setup of ${plugin.name}`)
  } catch (error) {
    // A plugin that is set up too late is closed. Nobody is told when that fails: the configuration was refused.
    setting.then((late) => late.close?.()).catch(() => undefined)
    throw new PluginRefusal(plugin.name, error)
  }
}

/** What `setup` throws at once is a rejection, too. */
async function settingUp(plugin: Plugin, gateway: Gateway): Promise<Running> {
  return await plugin.setup(gateway, gateway.config.plugins.get(plugin.name))
}

/** All plugins together may take this long to close. A `close` that takes longer is no longer awaited, because the ledger is closed next. */
const closeMs = 5000
/** Each has at least so long, also after one that hung. */
const leastCloseMs = 500

/** How long the next `close` may take, from the first one on. */
function patienceOf(): () => number {
  let endsAt: number | undefined
  return () => {
    endsAt ??= performance.now() + closeMs
    return Math.max(leastCloseMs, Math.round(endsAt - performance.now()))
  }
}

async function close(one: Running, name: string, ms: number): Promise<void> {
  if (one.close) await within(one.close(), ms, `close of ${name}`)
}
