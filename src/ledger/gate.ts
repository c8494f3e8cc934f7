// The gate is shut from a lost connection until this process has renewed its holds and sent again what Redis may have
// forgotten. Otherwise the first identify or admit could reap those holds.

import type { LedgerEvents } from './events.ts'
import { unavailable } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'

export interface Gate {
  /** Resolves when the gate is open for the first time, or Redis is away. */
  start(): Promise<void>
  stop(): void
  readonly isOpen: boolean
  /** Throws while it is shut. */
  pass(): void
}

export interface GateOptions {
  readonly events: LedgerEvents
  readonly connected: { lost(): void }
  readonly recover: () => Promise<void>
}

export function createGate(link: ScriptLink, { events, connected, recover }: GateOptions): Gate {
  let isOpen = false
  let isStopped = false
  let connection = 0
  const open = async () => {
    const mine = ++connection
    isOpen = false
    let said = ''
    while (!isStopped && link.up && mine === connection) {
      try {
        await recover()
        isOpen = mine === connection
        return
      } catch (error) {
        // Reported once for each reason. A connection that is lost meanwhile is reported elsewhere.
        if (link.up && String(error) !== said) {
          said = String(error)
          events.problem?.('the ledger could not be opened: the gateway tries again', error)
        }
        await new Promise((resolve) => setTimeout(resolve, 100).unref())
      }
    }
  }
  return {
    async start() {
      link.onReady(() => void open())
      link.onLost(() => {
        connection++
        isOpen = false
        connected.lost()
      })
      if (link.up && connection === 0) await open()
    },
    stop() {
      isStopped = true
      isOpen = false
    },
    get isOpen() {
      return isOpen
    },
    pass() {
      if (!isOpen)
        throw unavailable(new Error('Redis is away, or this process is still taking up its holds'))
    },
  }
}
