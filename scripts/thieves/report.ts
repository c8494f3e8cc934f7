// What the thieves got and what they paid, for people: tables that can go into a note as they are.

import type { MoneyReport } from './money.ts'
import type { Result } from './play.ts'
import { table } from './table.ts'

const head = [
  'strategy',
  'finding',
  'backend',
  'ending',
  'requests',
  'truth',
  'paid',
  'owed',
  'charged ÷ truth',
  'answer',
  'verdict',
]

export function moneyText({ results, mixtures, sequence, audit }: MoneyReport): string {
  const bad = mixtures.filter(({ fault }) => fault !== '')
  const parts = [table(head, results.map(rowOf))]
  if (mixtures.length > 0) {
    parts.push(`Mixtures: ${summary(mixtures)}`)
    if (bad.length > 0) parts.push(table(head, bad.slice(0, shownMixtures).map(rowOf)))
  }
  if (sequence) {
    const { requests, refused, stale } = sequence
    parts.push(
      `One after the other over two gateways, concurrency 1: ${refused} of ${requests} refused, ${stale} balances stale.`,
    )
  }
  parts.push(`Audit: ${audit || 'no differences'}.`)
  parts.push(`In all: ${summary([...results, ...mixtures])}`)
  return parts.join('\n\n')
}

const shownMixtures = 40

function rowOf(result: Result) {
  const { name, item, backend, ending, requests, truth, paid, owed, said, fault } = result
  const ratio = truth === 0 ? '–' : ((paid + owed) / truth).toFixed(3)
  const finding = item === 0 ? '–' : String(item)
  return [name, finding, backend, ending, requests, truth, paid, owed, ratio, said, fault || 'ok']
}

function summary(results: readonly Result[]): string {
  const sum = (of: (result: Result) => number) => results.reduce((all, one) => all + of(one), 0)
  const count = (number: number) => number.toLocaleString('en')
  const truth = sum((one) => one.truth)
  const paid = sum((one) => one.paid)
  const owed = sum((one) => one.owed)
  const bad = results.filter(({ fault }) => fault !== '').length
  return `${results.length} rounds, ${bad} with a fault; used ${count(truth)}, paid ${count(paid)}, owed ${count(owed)}.`
}
