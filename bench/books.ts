// Proof that the whole pipeline was measured: the requests that were answered, seen by the backend, held, settled,
// logged and charged must be the same number. Five independent counts are compared; only two of them are the gateway's
// own metrics.

import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { usage } from './backend.ts'
import { admin } from './contestants.ts'
import type { Tollgate } from './contestants.ts'

export interface Books {
  readonly counts: Readonly<Record<string, number>>
  readonly spent: number
  readonly expected: number
  readonly reserved: number
  readonly isEven: boolean
}

/** The metrics of a gateway process cover only its own life; those of earlier processes are passed in. */
export interface Life {
  readonly holds: number
  readonly settles: number
}

export async function readLife({ adminPort }: Tollgate): Promise<Life> {
  await wait(500) // Time for the last settlement's reply to arrive.
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  const sum = (pattern: RegExp) =>
    [...text.matchAll(pattern)].reduce((total, [, value]) => total + Number(value), 0)
  return {
    holds: sum(/^tollgate_redis_command_seconds_count\{script="admit"[^}]*\} (\d+)/gm),
    settles: sum(/^tollgate_settlements_total\{[^}]*\} (\d+)/gm),
  }
}

export async function closeBooks(
  gateway: Tollgate,
  lives: readonly Life[],
  seen: { readonly answered: number; readonly backend: number },
): Promise<Books> {
  await wait(1500) // The log is flushed four times a second.
  const balances = await Promise.all(
    gateway.accounts.map((id) =>
      admin<{ spent: number; reserved: number }>(gateway, `accounts/${id}/balance`),
    ),
  )
  const total = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0)
  const counts = {
    'requests answered': seen.answered,
    'requests at the backend': seen.backend,
    holds: total(lives.map(({ holds }) => holds)),
    settlements: total(lives.map(({ settles }) => settles)),
    'log lines': readFileSync(gateway.logFile, 'latin1').split('"/v1/chat/completions"').length - 1,
  }
  const spent = total(balances.map((one) => one.spent))
  const reserved = total(balances.map((one) => one.reserved))
  const expected = seen.answered * (usage.prompt_tokens + 4 * usage.completion_tokens)
  const isEven = new Set(Object.values(counts)).size === 1 && spent === expected && reserved === 0
  return { counts, spent, expected, reserved, isEven }
}
