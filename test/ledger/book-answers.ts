// JSON or CSV: what each form takes of the query.

import t from 'tap'
import type { Answer } from '../../src/exchange.ts'
import { answerTransactions, answerUsage, answerUsageOfAll } from '../../src/ledger/book-answers.ts'
import { makeAccount, openOn, request, topUp, used } from '../fixtures/ledger.ts'
import { parseCsv } from '../fixtures/csv.ts'

async function textOf(answer: Answer): Promise<string> {
  if ('body' in answer) return String(answer.body)
  if (!('content' in answer)) throw new Error('a stream')
  const pieces: Buffer[] = await answer.content.toArray()
  return Buffer.concat(pieces).toString()
}

t.test('the same rows as JSON, in pages, and as CSV, all of them', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  for (const amount of [100, 200, 300]) await topUp(ledger, caller, amount)
  await ledger.settle(await ledger.admit(request(caller, 10)), used(4))
  const asked = (text: string) => ({
    ref: caller.ref,
    accountId: 'acct_1',
    share: caller.ref,
    query: new URLSearchParams(text),
    signal: new AbortController().signal,
  })

  t.test('transactions', async (t) => {
    const { data } = JSON.parse(
      await textOf(await answerTransactions(ledger, asked('type=topup&limit=2'))),
    )
    t.match(data, [{ amount: 300 }, { amount: 200 }])
    const csv = await textOf(await answerTransactions(ledger, asked('type=topup&format=csv')))
    const [titles = [], ...rows] = await parseCsv(csv)
    const at = titles.indexOf('amount')
    t.same(
      rows.map((row) => row[at]),
      ['100', '200', '300'],
    )
    for (const name of ['limit=1', 'order=asc', `after=txn_${'0'.repeat(32)}`]) {
      const param = name.split('=')[0]
      const answering = answerTransactions(ledger, asked(`format=csv&${name}`))
      await t.rejects(answering, { code: 'invalid_parameter', param })
    }
    const unknown = answerTransactions(ledger, asked('format=xml'))
    await t.rejects(unknown, { code: 'invalid_parameter', param: 'format' })
  })

  t.test('usage', async (t) => {
    const { data } = JSON.parse(await textOf(await answerUsage(ledger, asked('bucket=day'))))
    t.match(data, [{ cost: 4, cached_tokens: 2 }])
    const csv = await textOf(
      await answerUsage(ledger, asked('bucket=day&format=csv&group_by=model')),
    )
    const [titles = [], row = []] = await parseCsv(csv)
    t.equal(row[titles.indexOf('account_id')], 'acct_1')
    t.equal(row[titles.indexOf('model')], 'm')
    const invalid = answerUsage(ledger, asked('format=csv&bucket=week'))
    await t.rejects(invalid, { code: 'invalid_parameter' }, 'before the answer begins')
  })

  t.test('usage of all', async (t) => {
    const body = await textOf(await answerUsageOfAll(ledger, asked('group_by=account')))
    t.match(JSON.parse(body), { object: 'list', has_more: false })
    const csv = await textOf(await answerUsageOfAll(ledger, asked('group_by=account&format=csv')))
    t.match(csv, /^start,end,start_time,account_id,/)
    const paged = answerUsageOfAll(ledger, asked('group_by=account&format=csv&limit=1'))
    await t.rejects(paged, { code: 'invalid_parameter', param: 'limit' })
  })
})
