// What a finance person does at the end of a month: with the CSV alone, and tools that are not ours, every line is
// recomputed by the price that it says was applied, and the lines add up to each balance. In this month a price changed,
// a payment came twice, something was refunded, and a gateway was frozen in the middle of an answer.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { runPython } from '../fixtures/csv.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { Reading, balanceOf, differencesOf, openHold, transactionsOf } from '../fixtures/money.ts'
import { pick } from '../fixtures/pick.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

/** Recomputes everything from what is on its standard input, and prints what it has found, or what is wrong. */
const program = `
import csv, io, json, sys
from collections import defaultdict
from decimal import Decimal, ROUND_CEILING

def whole(text):
    return int(text or 0)

def cost(row):
    prompt, cached = whole(row["prompt_tokens"]), whole(row["cached_tokens"])
    return int((
        Decimal(row["price_request"])
        + (prompt - cached) * Decimal(row["price_input"])
        + cached * Decimal(row["price_cached_input"])
        + whole(row["completion_tokens"]) * Decimal(row["price_output"])
    ).to_integral_value(ROUND_CEILING))

books = json.load(sys.stdin)
used_by_model, prices, types, requests = defaultdict(int), defaultdict(set), defaultdict(int), {}
for account in books["accounts"]:
    rows = list(csv.DictReader(io.StringIO(account["csv"], newline=""), strict=True))
    sums, balance, paid = defaultdict(int), 0, defaultdict(int)
    for row in rows:
        assert row["account_id"] == account["id"], row
        amount = whole(row["amount"])
        types[row["type"]] += 1
        sums[row["type"]] += amount
        balance += amount
        assert balance == whole(row["balance_after"]), row
        if row["type"] in ("charge", "correction"):
            used = whole(row["owed"]) + whole(row["waived"]) - amount
            assert whole(row["charged_before"]) + used == cost(row), row
            request = row["request_id"]
            paid[request] += used
            assert paid[request] == cost(row), row
            used_by_model[row["model"]] += used
            prices[row["model"]].add((row["price_input"], row["price_output"]))
            assert row["key_id"], row
    spent = -(sums["charge"] + sums["correction"] + sums["refund"] + sums["repayment"])
    assert spent == account["spent"], (spent, account["spent"])
    granted = sums["topup"] + sums["adjustment"]
    assert granted == account["granted"], (granted, account["granted"])
    assert balance == granted - spent, account
usage = defaultdict(int)
for row in csv.DictReader(io.StringIO(books["usage"], newline=""), strict=True):
    usage[row["model"]] += whole(row["cost"])
assert usage == used_by_model, (usage, used_by_model)
json.dump({"types": types, "prices": {model: len(found) for model, found in prices.items()}}, sys.stdout)
`

const leaseMs = 2000
/** So many words are charged when the gateway is taken for dead. */
const early = 4

const yamlOf = (url: string, small: string, large: string) => `
models:
  small: { targets: [{ url: '${url}' }], price: ${small} }
  org/large: { targets: [{ url: '${url}' }], price: ${large} }
plugins: { metering: { lease: ${leaseMs}ms } }
`

const before = ['{ input: 0.15, output: 0.6, cached_input: 0.075 }', '{ input: 3, output: 15.5 }']
const after = [
  '{ input: 0.1, output: 0.4, cached_input: 0.000001, request: 0.25 }',
  '{ input: 2.5, output: 10 }',
]

async function month(t: Test) {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ cachedTokens: 2 }))
  const redis = await startRedis(t)
  const [small = '', large = ''] = before
  const yaml = yamlOf(backend.url, small, large)
  const [victim, witness] = await Promise.all([
    spawnGateway(t, { redis, yaml }),
    spawnGateway(t, { redis, yaml }),
  ])
  const link = await connectLink(t, redis.socket)
  const accounts = [await victim.account(0), await victim.account(0), await victim.account(0)]
  const changePrices = async () => {
    const [small = '', large = ''] = after
    for (const gateway of [victim, witness]) {
      await gateway.rewrite(yamlOf(backend.url, small, large))
      t.equal((await gateway.admin('POST', 'reload')).status, 200)
    }
  }
  return { gate, backend, victim, witness, link, accounts, changePrices }
}

async function generate(gateway: TestGateway, account: Account, model: string, tokens: number) {
  const messages = [{ role: 'user', content: 'Three words here' }]
  const answer = await gateway.call('/v1/chat', account.key, {
    model,
    messages,
    max_tokens: tokens,
  })
  if (!answer.ok) throw new Error(await answer.text())
  await answer.text()
}

t.test('a month of three accounts is recomputed from the CSV, to the token', async (t) => {
  const { gate, backend, victim, witness, link, accounts, changePrices } = await month(t)
  const [first, second, third] = accounts
  if (!first || !second || !third) throw new Error('no accounts')
  const money = async (account: Account, path: string, body: object) => {
    const answer = await witness.admin('POST', `accounts/${account.id}/${path}`, body)
    t.equal(answer.status, 200, await answer.text())
  }
  for (const account of accounts) {
    const payment = { amount: 10_000, reference: `pi_${account.id}` }
    for (let i = 0; i < 2; i++) await money(account, 'topup', payment)
  }
  const use = async () => {
    for (const [i, account] of accounts.entries()) {
      await generate(victim, account, 'small', 3 + i)
      await generate(witness, account, 'org/large', 1 + i)
      await generate(victim, account, 'small', 1)
    }
  }
  await use()

  backend.once(chat({ chunks: 12, cachedTokens: 2, gate }))
  const asked = { model: 'org/large', messages: [{ role: 'user', content: 'Hi' }], stream: true }
  gate.next(1 + early)
  const reading = new Reading(
    await victim.call('/v1/chat', second.key, { ...asked, max_tokens: 100 }),
  )
  await reading.until(`w${early - 1} `)
  await until(async () => (await openHold(link, second)).charged > 0)
  victim.child.kill('SIGSTOP')
  await until(async () => (await balanceOf(witness, second)).reserved === 0)
  victim.child.kill('SIGCONT')
  await until(async () => (await balanceOf(witness, second)).reserved > 0)
  gate.open()
  t.match(await reading.end(), /data: \[DONE\]\n\n$/)

  await changePrices()
  await use()
  await money(first, 'adjust', {
    amount: 7,
    type: 'refund',
    note: '=HYPERLINK("x";"sorry, our fault")',
  })
  await money(third, 'adjust', { amount: -100, note: 'a gift, taken back' })

  const days = 15 * 86_400
  const now = Math.floor(Date.now() / 1000)
  const span = `from=${now - days}&to=${now + days}&format=csv`
  const csvOf = async (path: string) => {
    const answer = await witness.admin('GET', `${path}${span}`)
    t.equal(answer.status, 200)
    return answer.text()
  }
  const books = []
  for (const account of accounts) {
    const { spent, granted } = await balanceOf(witness, account)
    const csv = await csvOf(`accounts/${account.id}/transactions?`)
    books.push({ id: account.id, spent, granted, csv })
  }
  const usage = await csvOf('usage?group_by=model&bucket=day&')
  t.same(JSON.parse(await runPython(program, JSON.stringify({ accounts: books, usage }))), {
    types: { topup: 3, charge: 19, correction: 1, refund: 1, adjustment: 1 },
    prices: { small: 2, 'org/large': 2 },
  })
  t.same(await differencesOf(witness), [])

  const lines = await transactionsOf(witness, second)
  const [correction] = lines.filter(({ type }) => type === 'correction')
  t.equal(lines.filter((line) => line.request_id === correction?.request_id).length, 2)
  t.same(pick(lines.slice(0, 1), 'reference'), [`pi_${second.id}`])
  const cents = books.map((book) => ({ ...book, spent: book.spent + 1 }))
  const wrong = runPython(program, JSON.stringify({ accounts: cents, usage }))
  await t.rejects(wrong, /AssertionError/, 'the program would see a token too much')
})
