// tollgate topup, adjust, refund, balance: the money of accounts. If the client repeats a top-up, it is still made once.

import type { Transaction } from '../ledger/transaction.ts'
import type { Balance } from '../ledger/balance.ts'
import { path } from './admin.ts'
import { repeatable, tell, usageError, wordAt } from './command.ts'
import type { Call, Command } from './command.ts'
import { card, formatAmount, formatChange, formatTime } from './table.ts'
import { formatBudget, parseAmount } from './values.ts'

const topup: Command = {
  name: 'topup',
  words: ['ACCOUNT', 'AMOUNT'],
  summary: 'give an account tokens',
  options: {
    reference: { value: 'ID', help: 'the id of the payment: it is topped up once, ever' },
    note: { value: 'TEXT', help: 'a text that is kept with the transaction' },
    ...repeatable,
  },
  async run(call) {
    const amount = parseAmount(wordAt(call, 1))
    if (amount <= 0)
      throw usageError('A top-up must be more than 0. To take tokens away, use `tollgate adjust`.')
    return credit(call, 'topup', { amount, reference: call.text('reference') })
  },
}

const adjust: Command = {
  name: 'adjust',
  words: ['ACCOUNT', 'AMOUNT'],
  summary: 'correct a balance up or down: +500, -500',
  options: { note: { value: 'TEXT', help: 'the reason; required' }, ...repeatable },
  async run(call) {
    const amount = parseAmount(wordAt(call, 1))
    if (amount === 0) throw usageError('An adjustment must not be 0.')
    return credit(call, 'adjust', { amount })
  },
}

const refund: Command = {
  name: 'refund',
  words: ['ACCOUNT', 'AMOUNT'],
  summary: 'give back tokens that an account has spent',
  options: { note: { value: 'TEXT', help: 'the reason; required' }, ...repeatable },
  async run(call) {
    const amount = parseAmount(wordAt(call, 1))
    if (amount <= 0) throw usageError('A refund must be more than 0.')
    return credit(call, 'adjust', { amount, type: 'refund' })
  },
}

const balance: Command = {
  name: 'balance',
  words: ['ACCOUNT'],
  summary: 'what an account has, holds, has spent and owes',
  async run(call) {
    const admin = await call.admin()
    const found = await admin.get<Balance>(path`accounts/${wordAt(call, 0)}/balance`)
    const { available, reserved, granted, spent, owed, allowance, budget } = found
    const shown = {
      available: formatAmount(available),
      reserved: formatAmount(reserved),
      balance: formatAmount(found.balance),
      granted: formatAmount(granted),
      spent: formatAmount(spent),
      owed: formatAmount(owed),
      ...(allowance && { allowance: describeAllowance(allowance) }),
      ...(budget && { budget: formatBudget(budget) }),
      'as of': formatTime(found.updated_at),
    }
    return tell(call, found, card(shown))
  },
}

export const moneyCommands: readonly Command[] = [topup, adjust, refund, balance]

async function credit(call: Call, kind: 'topup' | 'adjust', fields: object): Promise<number> {
  const note = call.text('note')
  if (kind === 'adjust' && !note) throw usageError('Give the reason: --note TEXT.')
  const body = { ...fields, note }
  const target = `${path`accounts/${wordAt(call, 0)}`}/${kind}`
  const admin = await call.admin()
  const made = await admin.post<Transaction>(target, body)
  const line = `${formatChange(made.amount)}, balance ${formatAmount(made.balance_after)} (${made.id})\n`
  return tell(call, made, line)
}

function describeAllowance(allowance: NonNullable<Balance['allowance']>): string {
  const { tokens, every, left, renews_at } = allowance
  const given = every ? `${formatAmount(tokens)} each ${every}` : 'no more'
  const until = renews_at === null ? '' : ` until ${formatTime(renews_at)}`
  return `${formatAmount(left)} left${until}, ${given}`
}
