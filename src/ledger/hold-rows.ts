// What Redis has of a hold, read for those who do not have it in memory: a row while it is open, a mark once it is reaped
// or settled. The scripts write both (lua/admit.lua, lua/charges.lua); nobody outside the ledger reads their texts.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { parseCounted } from './allowances.ts'
import type { CountedIn } from './allowances.ts'
import type { Progress } from './hold.ts'
import { fromWords } from '../tokens/token-counts.ts'

/** `open` and `reaped`: `used` is what the last checkpoint said. `settled`: the mark keeps no tokens. `unknown`: older than a day, or never made. */
export type HoldUse =
  | { readonly state: 'open' | 'reaped'; readonly used: Progress }
  | { readonly state: 'settled'; readonly charge: number }
  | { readonly state: 'unknown' }

export type HoldReader = ReturnType<typeof createHoldReader>

/** For holds of any gateway, by the account's ref and the id of the hold. */
export function createHoldReader(redis: Redis) {
  return {
    /** Whether the gateway that has the hold renews its lease, by the clock of Redis: this machine's clock may be hours off. False once the hold is settled or reaped. */
    async isLeased(ref: string, id: string): Promise<boolean> {
      const asking = Promise.all([redis.time(), redis.hget(keys.holdRows(ref), id)])
      const [[seconds], row] = await asked(asking)
      return row !== null && parseHoldRow(row).deadlineMs > Number(seconds) * 1000
    },
    async usedBy(ref: string, id: string): Promise<HoldUse> {
      const mark = redis.hget(keys.settled(ref, hourOfHold(id)), id)
      const [row, marked] = await asked(Promise.all([redis.hget(keys.holdRows(ref), id), mark]))
      return useOf(row, marked)
    },
  }
}

function useOf(row: string | null, mark: string | null): HoldUse {
  if (row !== null) return { state: 'open', used: parseHoldRow(row).used }
  const [kind, ...words] = (mark ?? '').split(' ')
  if (kind === 'r') return { state: 'reaped', used: toProgress(words) }
  if (kind === 's') return { state: 'settled', charge: Number(words[0]) }
  return { state: 'unknown' }
}

export interface HoldRow {
  readonly amount: number
  readonly used: Progress
  readonly keyId: string
  /** The windows of budgets that it counts in. */
  readonly countedIn: readonly CountedIn[]
  /** Of its lease, by the clock of Redis. Infinity where a gateway of an earlier version made the hold: it ends when it is reaped. */
  readonly deadlineMs: number
}

const deadlineAtEnd = / (\d{13})$/

/** `<amount> <charge> <prompt> <cached> <completion> <key id> <model> <meta> <deadline>`. */
export function parseHoldRow(text: string): HoldRow {
  const [amount, ...words] = text.split(' ')
  const [, counted] = /"held":"([^"]*)"/.exec(text) ?? []
  return {
    amount: Number(amount),
    used: toProgress(words),
    keyId: words[4] ?? '',
    deadlineMs: Number(deadlineAtEnd.exec(text)?.[1] ?? Infinity),
    countedIn: counted === undefined ? [] : parseCounted(counted, Number(amount)),
  }
}

function toProgress([charge, ...words]: readonly string[]): Progress {
  return { charge: Number(charge), ...fromWords(words) }
}

const hourMs = 3_600_000

/** The marks of an hour are one hash. A hold id is a UUIDv7 in hex: its first 12 digits are its time. */
export const hourOfHold = (id: string) => Math.floor(Number.parseInt(id.slice(0, 12), 16) / hourMs)
