// Tables that can be copied into a note: what the thieves got and what they paid, and what attacks cost the others.

import type { MoneyReport } from './money.ts'
import type { Siege } from './others/siege.ts'
import type { Result } from './play.ts'
import { table } from '../table.ts'

const moneyHead = [
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
const shownMixtures = 40

export function moneyText({ results, mixtures, sequence, audit }: MoneyReport): string {
  const bad = mixtures.filter(({ fault }) => fault !== '')
  const parts = results.length > 0 ? [table(moneyHead, results.map(resultRow))] : []
  if (mixtures.length > 0) {
    parts.push(`Mixtures: ${summary(mixtures)}`)
    if (bad.length > 0) parts.push(table(moneyHead, bad.slice(0, shownMixtures).map(resultRow)))
  }
  if (sequence) {
    const { requests, reads, refused, stale } = sequence
    parts.push(
      `One after the other over two gateways, concurrency 1: ${refused} of ${requests} requests refused, ${stale} of ${reads} balances stale.`,
    )
  }
  parts.push(`Audit: ${audit || 'no differences'}.`)
  parts.push(`In all: ${summary([...results, ...mixtures])}`)
  return parts.join('\n\n')
}

function resultRow(result: Result) {
  const { name, item, backend, ending, requests, truth, paid, owed, said, fault } = result
  const ratio = truth === 0 ? '–' : ((paid + owed) / truth).toFixed(3)
  const finding = item === 0 ? '–' : String(item)
  return [name, finding, backend, ending, requests, truth, paid, owed, ratio, said, fault || 'ok']
}

function summary(all: readonly Result[]): string {
  // Tokens that a lying backend invents were used by nobody.
  const results = all.filter(({ backend }) => backend !== 'liar')
  const sum = (of: (result: Result) => number) =>
    results.reduce((total, one) => total + of(one), 0).toLocaleString('en')
  const bad = all.filter(({ fault }) => fault !== '').length
  return [
    `${all.length} rounds, ${bad} with a fault;`,
    `used ${sum(({ truth }) => truth)},`,
    `paid ${sum(({ paid }) => paid)},`,
    `owed ${sum(({ owed }) => owed)}.`,
  ].join(' ')
}

const siegeHead = [
  'attack',
  'finding',
  'customer failed',
  'of',
  'p99 before, ms',
  'p99 during, ms',
  'loop held, ms',
  'RSS, MiB',
  'Redis, MiB',
  'what attackers were told',
  'verdict',
]

export function siegesText(sieges: readonly Siege[]): string {
  return table(siegeHead, sieges.map(siegeRow))
}

function siegeRow(siege: Siege) {
  const { name, item, failures, requests, rssMiB, redisMiB, answers, fault } = siege
  return [
    name,
    String(item),
    counts(failures) || '0',
    requests,
    Math.round(siege.p99BeforeMs),
    Math.round(siege.p99Ms),
    Math.round(siege.heldMs),
    Math.round(rssMiB),
    redisMiB.toFixed(1),
    counts(answers),
    fault || 'ok',
  ]
}

function counts(counted: Readonly<Record<string, number>>): string {
  return Object.entries(counted)
    .map(([what, many]) => `${many} × ${what || 'no answer'}`)
    .join(', ')
}
