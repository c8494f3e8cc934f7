// What the processes of an attack say to each other: the honest customer and the attackers are told what to do by IPC,
// one order at a time, and report when it is done.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Test } from 'tap'

/** For the customer: a while of his usual requests. */
export interface Measure {
  readonly url: string
  /** Of an account with money and high limits. */
  readonly key: string
  /** Of another one, with usual limits, which asks for lists alone. */
  readonly quietKey: string
  readonly session: string
  readonly ms: number
}

export interface Measured {
  readonly requests: number
  /** Of small requests, to the last byte, sorted. */
  readonly latenciesMs: readonly number[]
  /** What went wrong, and how often. */
  readonly failures: Readonly<Record<string, number>>
}

/** For an attacker. `prepare` comes first, and is not measured. */
export interface Assault {
  readonly attack: string
  readonly step: 'prepare' | 'run'
  readonly urls: readonly [string, string]
  /** Of accounts without money. */
  readonly poorKeys: readonly string[]
  /** Of an account with money. */
  readonly richKey: string
  /** The account's part of the quiet customer's key, and a key of his that was revoked. */
  readonly victimRef: string
  readonly revokedKey: string
  readonly ms: number
}

/** What the gateway answered, and how often: `402 insufficient_balance`. */
export type Answers = Readonly<Record<string, number>>

/** A process of ours that takes orders of one kind. */
export interface Worker<Order, Report> {
  readonly address: string
  order(order: Order): Promise<Report>
}

/** `file` lies in this folder. Its first message is an address, or empty. */
export async function startWorker<Order extends object, Report>(
  t: Pick<Test, 'teardown'>,
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

/** In a worker: carries out what it is told, until its starter has gone. */
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
