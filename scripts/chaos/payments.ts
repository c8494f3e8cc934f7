// The operator's shop, which tops up an account again and again until it is told that it was done: each payment counts
// once.

import { randomUUID } from 'node:crypto'
import type { Transaction } from '../../src/ledger/transaction.ts'
import { Customer } from './customer.ts'

export class Payer extends Customer {
  readonly #paid: { readonly note: string; readonly amount: number }[] = []

  async live(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#pay()
      await this.rest()
    }
  }

  async #pay(): Promise<void> {
    const { places } = this.world
    const note = randomUUID()
    const amount = 1 + this.random(1000)
    const path = `accounts/${this.account.id}/topup`
    for (;;) {
      const place = places[this.random(places.length)]
      const headers = { 'idempotency-key': note }
      const answer = await place?.gateway
        .admin('POST', path, { amount, note }, headers)
        .catch(() => undefined)
      await answer?.text().catch(() => undefined)
      if (answer?.status === 200) break
      if (answer && answer.status !== 503 && answer.status !== 409) {
        return this.breaks(`a top-up was answered ${answer.status}`)
      }
      await this.rest()
    }
    this.#paid.push({ note, amount })
  }

  verify(entries: readonly Transaction[]): void {
    const made = new Map<string, number[]>()
    for (const { type, amount, note = '' } of entries) {
      if (type === 'topup') made.set(note, [...(made.get(note) ?? []), amount])
    }
    for (const { note, amount } of this.#paid) {
      const found = made.get(note) ?? []
      if (found.length !== 1 || found[0] !== amount) {
        this.breaks(`a top-up of ${amount} is in the journal as [${found.join(' ')}]`)
      }
    }
    this.payments = this.#paid.length
  }

  payments = 0
}
