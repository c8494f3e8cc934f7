// Gives a person something to try after a first `npm start`: an account with tokens and a key. Only with the embedded
// Redis, the demo model and no account yet: beside a real Redis a fresh container must not hand out money.

import type { Gateway } from '../plugin.ts'
import { newId } from '../ids.ts'

const demoTokens = 1_000_000

/** Resolves with undefined when nothing was made. */
export async function ensureDemo(
  gateway: Gateway,
): Promise<{ key: string; model: string } | undefined> {
  const { config, accounts, ledger } = gateway
  if (config.redis.kind !== 'embedded') return
  const model = [...config.models.values()].find(({ targets }) => targets[0]?.url === 'demo')
  if (!model) return
  const existing = await accounts.listAccounts({ limit: 1, order: 'asc' })
  if (existing.data.length > 0) return
  const { ref } = await accounts.createAccount({ name: 'demo' })
  const idempotencyId = newId('txn')
  await ledger.credit({ ref, idempotencyId, amount: demoTokens, type: 'topup', note: 'demo' })
  const { key } = await accounts.createKey(ref, { name: 'demo' })
  return { key, model: model.id }
}
