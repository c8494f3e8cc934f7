// What a gateway's admin API says of an account: what was paid, what is owed, and whether the books add up.

import type { Account, TestGateway } from '../../test/fixtures/gateway.ts'
import { until } from '../../test/fixtures/until.ts'

export interface Balance {
  readonly balance: number
  readonly reserved: number
  readonly available: number
  readonly granted: number
  readonly spent: number
  /** Gateways that forgive have none. */
  readonly owed?: number
}

export async function balanceOf(gateway: TestGateway, { id }: Account): Promise<Balance> {
  const answer = await gateway.admin('GET', `accounts/${id}/balance`)
  if (!answer.ok) throw new Error(`balance: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Balance
}

/** When nothing is held any more. */
export async function settledBalance(gateway: TestGateway, account: Account): Promise<Balance> {
  let found: Balance | undefined
  await until(async () => {
    found = await balanceOf(gateway, account)
    return found.reserved === 0
  }, 60_000)
  if (!found) throw new Error('no balance')
  return found
}

export async function topUp(gateway: TestGateway, { id }: Account, amount: number): Promise<void> {
  const answer = await gateway.admin('POST', `accounts/${id}/topup`, { amount })
  if (!answer.ok) throw new Error(`topup: ${answer.status} ${await answer.text()}`)
}

/** What `tollgate audit` finds, as text; empty where the books agree. */
export async function auditFindings(gateway: TestGateway): Promise<string> {
  const answer = await gateway.admin('GET', 'audit')
  const { differences } = (await answer.json()) as { readonly differences: readonly unknown[] }
  return differences.length === 0 ? '' : JSON.stringify(differences.slice(0, 3))
}
