// The books of an account that is deleted: closed at first, so that nothing is added; written off when its last hold has
// ended. Its journal stays, and adds up. Both steps may be repeated, by any gateway.

import { GatewayError } from '../errors.ts'
import { accountKeys } from '../redis/keys.ts'
import { numberAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import type { Gate } from './gate.ts'
import { maxRounds, tooManyRounds } from './library.ts'
import type { LedgerScripts } from './library.ts'
import { reap } from './reaping.ts'

export interface ClosingOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly gate: Pick<Gate, 'pass'>
  readonly onReaped: (count: number) => void
}

export type Closing = ReturnType<typeof createClosing>

/** The note of the transaction that takes the rest of a balance, or pays a debt. */
export const writeOffNote = 'The account was deleted.'

export function createClosing({ scripts, leaseMs, gate, onReaped }: ClosingOptions) {
  const ask = async (
    script: 'close' | 'write_off',
    ref: string,
    argument: string,
  ): Promise<Reply> => {
    gate.pass()
    for (let round = 0; round < maxRounds; round++) {
      const reply = await scripts.run(script, accountKeys(ref), [`${leaseMs}`, argument])
      if (reply.word !== 'reap') return reply
      await reap({ scripts, leaseMs, onReaped }, ref)
    }
    throw tooManyRounds()
  }
  return {
    /** From now on the account's keys are refused and its streams stop. Throws `account_not_empty` unless `forfeit`, and `account_not_found`. */
    async close(ref: string, forfeit: boolean): Promise<void> {
      const reply = await ask('close', ref, forfeit ? '1' : '')
      if (reply.word === 'account_not_found') throw new GatewayError(reply.word)
      if (reply.word === 'account_not_empty') throw notEmpty(reply)
    },
    /** Resolves with how many holds are open; with 0, the books are closed. */
    async writeOff(ref: string): Promise<number> {
      const reply = await ask('write_off', ref, JSON.stringify({ note: writeOffNote }))
      if (reply.word === 'account_not_found') throw new GatewayError(reply.word)
      return reply.word === 'held' ? numberAt(reply, 2) : 0
    },
  }
}

function notEmpty(reply: Reply): GatewayError {
  const [balance, reserved, owed] = [numberAt(reply, 2), numberAt(reply, 3), numberAt(reply, 4)]
  const has =
    owed > 0
      ? `The account owes ${owed} tokens.`
      : `The account has ${balance} tokens, ${reserved} of them held by requests that run.`
  return new GatewayError('account_not_empty', {
    message: `${has} Settle or forfeit that.`,
    shortage: { available: balance - reserved, owed },
  })
}
