// The messages between the processes of an attack: by IPC, the honest customer and the attackers get one order at a
// time, and report when it is done.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Teardown } from '../../../test/fixtures/teardown.ts'

/** The order for the customer: send the usual requests for a while. */
export interface Measure {
  readonly url: string
  /** The key of an account with money and high limits. */
  readonly key: string
  /** The key of another account, with usual limits; it asks for lists only. */
  readonly quietKey: string
  readonly session: string
  readonly ms: number
}

export interface Measured {
  readonly requests: number
  /** Latencies of small requests, until the last byte, sorted. */
  readonly latenciesMs: readonly number[]
  /** What went wrong, with how often. */
  readonly failures: Readonly<Record<string, number>>
}

/** The order for an attacker. `prepare` comes first and is not measured. */
export interface Assault {
  readonly attack: string
  readonly step: 'prepare' | 'run'
  readonly urls: readonly [string, string]
  /** Keys of accounts without money. */
  readonly poorKeys: readonly string[]
  /** The key of an account with money. */
  readonly richKey: string
  /** The account's part of the quiet customer's key, and a revoked key of that customer. */
  readonly victimRef: string
  readonly revokedKey: string
  readonly ms: number
}

/** What the gateway answered, with how often: `402 insufficient_balance`. */
export type Answers = Readonly<Record<string, number>>

/** A child process that takes orders of one kind. */
export interface Worker<Order, Report> {
  readonly address: string
  order(order: Order): Promise<Report>
}

/** Starts `file` of this folder. The first message of the child is an address, or empty. */
export async function startWorker<Order extends object, Report>(
  t: Teardown,
  file: string,
): Promise<Worker<Order, Report>> {
  const child = fork(resolve(import.meta.dirname, file), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const next = async (): Promise<unknown> => {
    const told = once(child, 'message').then(([message]: unknown[]) => message)
    const died = exited.then(() => Promise.reject(new Error(`${file} has ended`)))
    return Promise.race([told, died])
  }
  const address = (await next()) as string
  return {
    address,
    order: (order) => {
      child.send(order)
      return next() as Promise<Report>
    },
  }
}

/** Called in a worker: carries out its orders until the parent process has ended. */
export function obey<Order, Report>(
  address: string,
  carryOut: (order: Order) => Promise<Report>,
): void {
  process.on('disconnect', () => process.exit(0))
  process.on('message', (order: Order) => {
    void carryOut(order).then((report) => process.send?.(report))
  })
  process.send?.(address)
}

export function count(counts: Record<string, number>, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1
}
