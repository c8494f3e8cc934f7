// The parts of a case: what the server does, what the driver is told, and what must have been sent and seen.

import type { Answer, ScriptedServer } from './server.ts'
import type { Sent } from './request.ts'

export type Json = { readonly [name: string]: unknown }

export interface Step extends Json {
  readonly op: string
}

/** A driver's answer to one line. */
export interface Saw {
  readonly steps: readonly Json[]
  readonly waits: readonly number[]
  readonly shown: readonly string[]
}

export interface Run {
  /** `{base}`, `{other}`, `{closed}`, `{silent}` stand for the server's origins. null: the option is not given. */
  readonly client?: Json | null
  /** For a driver process of its own, with the same placeholders. */
  readonly env?: Readonly<Record<string, string>>
  readonly answers?: readonly Answer[]
  readonly steps: readonly Step[]
  /** Compared by `matches`, one for each step. */
  readonly saw?: readonly unknown[]
  /** Compared by `matches`, one for each request; there must be no further requests. */
  readonly sent?: readonly unknown[]
  check?(seen: Seen): void
  /** Requests that must come within a few seconds after the steps: what a client does by itself. */
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

/** One promise, tested in several places or ways. */
export function each<Item>(
  name: string,
  items: Iterable<Item>,
  make: (item: Item, index: number) => Run,
): Case {
  return { name, runs: [...items].map(make) }
}

/** A run that compares only its steps and requests. */
export type Plain = Required<Pick<Run, 'answers' | 'steps' | 'saw' | 'sent'>>

/** Like `each`, but all in one run of one client: for hundreds of small cases, since making a client takes time. */
export function row<Item>(name: string, items: Iterable<Item>, make: (item: Item) => Plain): Case {
  const runs = [...items].map(make)
  return one(name, {
    answers: runs.flatMap(({ answers }) => answers),
    steps: runs.flatMap(({ steps }) => steps),
    saw: runs.flatMap(({ saw }) => saw),
    sent: runs.flatMap(({ sent }) => sent),
  })
}
