// What a case is made of: what the server does, what the driver is told, what must have been sent and seen.

import type { Answer, ScriptedServer } from './server.ts'
import type { Sent } from './request.ts'

export type Json = { readonly [name: string]: unknown }

export interface Step extends Json {
  readonly op: string
}

/** What a driver says of a line. */
export interface Saw {
  readonly steps: readonly Json[]
  readonly waits: readonly number[]
  readonly shown: readonly string[]
}

export interface Run {
  /** `{base}`, `{other}`, `{closed}`, `{silent}` stand for the server's origins. null: nothing is given. */
  readonly client?: Json | null
  /** For a process of its own. The same words stand for the same. */
  readonly env?: Readonly<Record<string, string>>
  readonly answers?: readonly Answer[]
  readonly steps: readonly Step[]
  /** As `matches` compares, one a step. */
  readonly saw?: readonly unknown[]
  /** As `matches` compares, one a request, and no more requests than these. */
  readonly sent?: readonly unknown[]
  check?(seen: Seen): void
  /** Seen to within a few seconds after the steps: what a client does when it is left alone. */
  eventually?(seen: Seen): boolean
}

export interface Seen extends Saw {
  readonly sent: readonly Sent[]
  readonly server: ScriptedServer
}

export interface Case {
  readonly name: string
  readonly runs: readonly Run[]
}

export const key = 'tg_live_conformance0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH'

export function one(name: string, run: Run): Case {
  return { name, runs: [run] }
}

/** One promise, in many places or ways. */
export function each<Item>(
  name: string,
  items: Iterable<Item>,
  make: (item: Item, index: number) => Run,
): Case {
  return { name, runs: [...items].map(make) }
}

/** A run of which nothing but its steps and requests is compared. */
export type Plain = Required<Pick<Run, 'answers' | 'steps' | 'saw' | 'sent'>>

/** `each` as one run of one client: for hundreds of small ones, where to make a client costs more than the run. */
export function row<Item>(name: string, items: Iterable<Item>, make: (item: Item) => Plain): Case {
  const runs = [...items].map(make)
  return one(name, {
    answers: runs.flatMap(({ answers }) => answers),
    steps: runs.flatMap(({ steps }) => steps),
    saw: runs.flatMap(({ saw }) => saw),
    sent: runs.flatMap(({ sent }) => sent),
  })
}
