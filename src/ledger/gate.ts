// The gate is shut from a lost connection until this process has renewed its holds and sent again what Redis may have
// forgotten. Otherwise the first identify or admit could reap those holds. Where a primary of a Cluster is away, the gate
// opens all the same, for the accounts of the others.

import { unavailable } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'

export type Gate = ReturnType<typeof createGate>

export interface GateOptions {
  readonly onProblem: (message: string, cause: unknown) => void
  readonly connected: { lost(): void }
  readonly recover: () => Promise<void>
}

export function createGate(link: ScriptLink, { onProblem, connected, recover }: GateOptions) {
  let isOpen = false
  let isStopped = false
  let connection = 0
  const open = async () => {
    const mine = ++connection
    let said = ''
    while (!isStopped && link.up && mine === connection) {
      try {
        await recover()
        isOpen = mine === connection
        return
      } catch (error) {
        // A primary of a Cluster is away: the gate opens for the accounts of the others. `open` is called again when that
        // primary is back.
        if (link.up && !link.isWhole) {
          isOpen = mine === connection
          return
        }
        // Reported once for each reason. A connection that is lost meanwhile is reported elsewhere.
        if (link.up && String(error) !== said) {
          said = String(error)
          onProblem('the ledger could not be opened: the gateway tries again', error)
        }
        await new Promise((resolve) => setTimeout(resolve, 100).unref())
      }
    }
  }
  return {
    /** Resolves when the gate is open for the first time, or Redis is away. */
    async start(): Promise<void> {
      link.onReady(() => void open())
      link.onLost(() => {
        connection++
        isOpen = false
        connected.lost()
      })
      if (link.up && connection === 0) await open()
    },
    stop(): void {
      isStopped = true
      isOpen = false
    },
    get isOpen(): boolean {
      return isOpen
    },
    /** Throws while it is shut. */
    pass(): void {
      if (!isOpen)
        throw unavailable(new Error('Redis is away, or this process is still taking up its holds'))
    },
  }
}
