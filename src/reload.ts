// Takes up a new configuration while the gateway runs: all of it or nothing. What fails leaves the last good one in
// place. Two reloads are done one after the other. What changes is told in the log, secrets masked; so is what needs a
// restart, and stays as it was.

import { keepConnections } from './backend/pools.ts'
import type { Config } from './config/config.ts'
import { changesBetween, formatChange, withoutRestart } from './config/diff.ts'
import type { Change, Shown } from './config/diff.ts'
import type { LoadedConfig } from './config/load.ts'
import { formatPath, formatProblem } from './config/problem.ts'
import type { Problem } from './config/problem.ts'
import { withRunning } from './config/restart.ts'
import { Edition, PluginRefusal } from './edition.ts'
import { asGatewayError, GatewayError, messageOf } from './errors.ts'
import { openListeners } from './listeners/listeners.ts'
import type { Listeners, Ports } from './listeners/listeners.ts'
import type { FileContents } from './config/read-files.ts'
import type { Log } from './log.ts'
import type { Gateway, Plugin } from './plugin.ts'
import { soon } from './sharing/patience.ts'

export type Load = () => Promise<
  | { readonly problems: readonly Problem[] }
  | (Omit<LoadedConfig, 'warnings' | 'files'> & { readonly ownPlugins: readonly Plugin[] })
>

export interface EditionsOptions {
  /** What plugins get of a configuration. */
  readonly build: (config: Config, shown: Shown) => Gateway
  /** Fills in what is not in the file, such as the admin token that the gateway has made. */
  readonly complete: (config: Config) => Promise<Config>
  readonly builtIn: readonly Plugin[]
  readonly load: Load | undefined
  readonly secretsOf: (config: Config) => readonly string[]
  /** Called when a configuration has taken over. */
  readonly onTaken: (gateway: Gateway) => void
  readonly workers?: WorkersReload | undefined
  /** Which ports are opened. */
  readonly ports?: Ports
}

/** A reload of the workers: in two steps, so that all take it or none. */
export interface WorkersReload {
  /** Rejects when one of them can't take it. */
  prepare(contents: FileContents): Promise<void>
  commit(contents: FileContents): Promise<void>
  drop(): void
}

export interface PreparedReload {
  readonly changes: readonly Change[]
  readonly contents: FileContents
  commit(): void
  drop(): void
}

/**
 * How long `close` waits, after the drain, for a reload that still loads or sets up plugins. Such a reload no longer
 * takes over.
 */
const turnMs = 5000

const unchanged = { commit: () => undefined, drop: () => undefined }

/** The configurations that exchanges run with: the current one, and earlier ones that still have some. */
export class Editions {
  readonly listeners: Listeners
  readonly #options: EditionsOptions
  /** All editions whose plugins are not closed yet, also those that are prepared or were refused. */
  readonly #alive: Set<Edition>
  /** Configurations whose plugins are being set up. */
  readonly #opening = new Set<Config>()
  #current: Edition
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(options: EditionsOptions, first: Edition, listeners: Listeners) {
    this.#options = options
    this.#current = first
    this.#alive = new Set([first])
    this.listeners = listeners
  }

  /** Rejects with what a plugin has thrown, or because the ports can't be opened; nothing is left open then. */
  static async open(
    first: Gateway,
    own: readonly Plugin[],
    options: EditionsOptions,
  ): Promise<Editions> {
    const made: { editions?: Editions } = {}
    const onClosed = (closed: Edition, error?: unknown) => {
      if (made.editions) made.editions.#forget(closed, error)
    }
    const list = [...options.builtIn, ...own]
    const edition = await Edition.open(first, list, onClosed).catch(rethrowCause)
    try {
      const listeners = await openListeners(edition, options.ports)
      return (made.editions = new Editions(options, edition, listeners))
    } catch (error) {
      await edition.close().catch(() => undefined)
      throw error
    }
  }

  get current(): Gateway {
    return this.#current.gateway
  }

  /** Resolves with what has changed, and what would change after a restart. */
  reload(cause: string): Promise<readonly Change[]> {
    const turn = this.#turn.then(() => this.#reload(cause))
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  /** Drains, then closes the plugins of all configurations. */
  async close(hurry?: AbortSignal): Promise<void> {
    await this.listeners.close(hurry)
    await soon(this.#turn, turnMs)
    const closing = [...this.#alive].map((edition) => edition.close())
    // What plugins use, such as Redis, is closed next.
    await Promise.allSettled(closing)
    await Promise.all(closing)
  }

  /** Takes nothing over before `commit`; the caller must call that or `drop`. */
  async prepare(): Promise<PreparedReload> {
    const { load, complete, build, builtIn } = this.#options
    const loaded = await load?.()
    if (!loaded) throw new Error('this gateway was not started from a file')
    if ('problems' in loaded) throw invalid(loaded.problems)
    const running = this.current
    const changes = changesBetween(running, loaded)
    const { contents } = loaded
    if (changes.every(({ needsRestart }) => needsRestart))
      return { ...unchanged, changes, contents }
    const wanted = await complete(withRunning(loaded.config, running.config))
    const next = build(wanted, withoutRestart(running, loaded))
    this.#opening.add(wanted)
    try {
      const ready = await this.#open(next, [...builtIn, ...loaded.ownPlugins])
      return { changes, contents, ...ready }
    } catch (error) {
      // Made before `finally`: until then the log masks this configuration's secrets.
      throw invalid([problemOf(error, loaded, next.log)])
    } finally {
      this.#opening.delete(wanted)
    }
  }

  async #open(
    gateway: Gateway,
    list: readonly Plugin[],
  ): Promise<Pick<PreparedReload, 'commit' | 'drop'>> {
    const { config, log } = gateway
    for (const secret of this.#options.secretsOf(config)) log.hide(secret)
    const onClosed = (edition: Edition, error?: unknown) => this.#forget(edition, error)
    const edition = await Edition.open(gateway, list, onClosed)
    this.#alive.add(edition)
    const drop = () => void edition.close().catch(() => undefined)
    try {
      const take = this.listeners.prepare(edition)
      return { drop, commit: () => this.#take(edition, take) }
    } catch (error) {
      drop()
      throw error
    }
  }

  async #reload(cause: string): Promise<readonly Change[]> {
    const { log, metrics, state } = this.current
    if (state.draining) throw new GatewayError('server_draining')
    try {
      const changes = await this.#takeUp()
      metrics.configReloadOk.set(1)
      this.#tell(cause, changes)
      return changes
    } catch (thrown) {
      const error = asGatewayError(thrown)
      if (error.code === 'server_draining') throw error
      metrics.configReloadOk.set(0)
      const told = error.problems ? { problems: error.message.split('\n') } : { err: thrown }
      log.error({ cause, ...told }, 'the configuration was not taken over: the last good one stays')
      throw error
    } finally {
      this.#maskSecrets()
    }
  }

  /** With workers, all take it or none does. */
  async #takeUp(): Promise<readonly Change[]> {
    const { workers } = this.#options
    const prepared = await this.prepare()
    try {
      await workers?.prepare(prepared.contents)
      if (this.current.state.draining) throw new GatewayError('server_draining')
    } catch (error) {
      prepared.drop()
      workers?.drop()
      throw error
    }
    prepared.commit()
    await workers?.commit(prepared.contents)
    return prepared.changes
  }

  /** Nothing is awaited here: a request begins with the old configuration or with the new one. */
  #take(edition: Edition, take: () => void): void {
    const old = this.#current
    take()
    this.#current = edition
    this.#maskSecrets()
    this.#options.onTaken(edition.gateway)
    old.retire()
  }

  #forget(edition: Edition, error: unknown): void {
    this.#alive.delete(edition)
    if (error !== undefined) {
      edition.gateway.log.error({ err: error }, 'a plugin did not close')
    }
    keepConnections([...this.#alive].map(({ gateway }) => gateway.config))
    this.#maskSecrets()
  }

  /**
   * Masks the secrets of all configurations in use, and no others: a former secret may come back as a customer's text. While
   * the gateway ends, none is dropped: start.ts still tells on stderr why plugins did not close.
   */
  #maskSecrets(): void {
    const { log, config, state } = this.current
    if (state.draining) return
    const configs = [...this.#opening, ...[...this.#alive].map(({ gateway }) => gateway.config)]
    log.adjust({ ...config.log, secrets: configs.flatMap(this.#options.secretsOf) })
  }

  #tell(cause: string, changes: readonly Change[]): void {
    const { log } = this.current
    const texts = (list: readonly Change[]) =>
      list.map((change) => formatChange({ ...change, path: formatPath(change.path) }))
    const changed = texts(changes.filter(({ needsRestart }) => !needsRestart))
    const later = texts(changes.filter(({ needsRestart }) => needsRestart))
    const restart = later.length > 0 ? { needs_restart: later } : {}
    if (changed.length === 0) log.info({ cause, ...restart }, 'the configuration has not changed')
    else log.info({ cause, changed, ...restart }, 'the configuration was taken over')
  }
}

function rethrowCause(error: unknown): never {
  throw error instanceof PluginRefusal ? error.cause : error
}

type Reread = Exclude<Awaited<ReturnType<Load>>, { readonly problems: unknown }>

function problemOf(error: unknown, { config, position }: Reread, log: Log): Problem {
  const path = error instanceof PluginRefusal ? ['plugins', error.plugin] : []
  // A plugin may have put a secret into its message.
  const message = log.masked(messageOf(error))
  return { file: config.file, ...position(path), path, message }
}

function invalid(problems: readonly Problem[]): GatewayError {
  const message = problems.map(formatProblem).join('\n')
  return new GatewayError('invalid_configuration', { message, problems })
}
