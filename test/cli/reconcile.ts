import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { runCli, startCli } from '../fixtures/cli.ts'
import { adminToken, startGateway } from '../fixtures/gateway.ts'
import { makeHold, newHoldId, used } from '../fixtures/ledger.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const { cli, accounts, ledger } = await startCli(t)
for (const name of ['a', 'b']) {
  const { ref } = await accounts.createAccount({ name })
  await ledger.settle(makeHold({ id: newHoldId(), ref, keyId: 'key_1' }), used(30))
}
// Each of the two has used 7 prompt tokens and 5 completion tokens of the model m, whose alias is nick.
const { start } = JSON.parse((await cli('usage', '--json')).out).data[0] as { start: number }
const day = new Date(start * 1000).toISOString().slice(0, 10)
const tomorrow = new Date((start + 86_400) * 1000).toISOString().slice(0, 10)
const folder = await tempDir(t)

async function file(name: string, ...lines: readonly string[]): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, lines.map((line) => `${line}\n`).join(''))
  return path
}

const titles = 'day,model,prompt_tokens,completion_tokens'

t.test('counts that are those of the ledger agree', async (t) => {
  const csv = await file('good.csv', titles, `${day},m,10,4`, `${start},nick,4,6`)
  t.match(await cli('reconcile', csv), { code: 0, err: '', out: /^2 sums: none parts\. / })
  const all = await cli('reconcile', csv, '--all')
  t.match(all.out, /^DAY +MODEL +COUNT +BACKEND +LEDGER +DIFFERENCE +SHARE +NOTE\n/)
  t.match(all.out, new RegExp(`^${day} +m +prompt +14 +14 +0 +0\\.00 %$`, 'm'))
  // Of the 14 prompt tokens, 4 came from a cache.
  const read = await file('read.csv', titles, `${day},m,10,10`)
  t.match(await cli('reconcile', read), { code: 1 })
  t.match(await cli('reconcile', read, '--uncached'), { code: 0 })
  const sums = await file('sums.jsonl', JSON.stringify({ date: day, model: 'm', tokens: 24 }))
  t.match(await cli('reconcile', sums), { code: 0, out: /^1 sum: none parts\. / })
})

t.test('where they part, it shows what each has, and the exit code is 1', async (t) => {
  const csv = await file('bad.csv', titles, `${day},m,14,8`, `${day},stolen,1000,1`)
  const people = await cli('reconcile', csv)
  t.equal(people.code, 1)
  t.notMatch(people.out, / prompt +14/)
  t.match(people.out, new RegExp(`^${day} +m +completion +8 +10 +\\+2 +25\\.00 %$`, 'm'))
  t.match(people.out, /stolen +prompt +1,000 +- +-1,000 +-100.00 % +this model is not configured/)
  t.match(
    people.out,
    new RegExp(`\n\n3 of 4 sums part\\. \\(${day} to ${day}, UTC; 2 lines read\\)`),
  )
  const { code, out } = await cli('reconcile', csv, '--json', '--map', 'stolen=m')
  t.equal(code, 1)
  t.match(JSON.parse(out), {
    object: 'reconciliation',
    first: day,
    last: day,
    time_zone: 'UTC',
    lines: 2,
    ignored: 0,
    parted: 2,
    data: [
      { day, model: 'm', count: 'prompt', backend: 1014, ledger: 14, difference: -1000 },
      { day, model: 'm', count: 'completion', backend: 9, ledger: 10, parts: true },
    ],
  })
  t.match(await cli('reconcile', csv, '--model', 'm', '--tolerance', '20%'), {
    code: 0,
    out: /1 line read, 1 line ignored/,
  })
  t.match(await cli('reconcile', csv, '--model', 'nick', '--tolerance', '1'), { code: 1 })
})

t.test('what the backend knows nothing of parts', async (t) => {
  const csv = await file('else.csv', titles, `${day},other,0,0`)
  const { code, out } = await cli('reconcile', csv)
  t.equal(code, 1)
  t.match(out, / m +prompt +- +14 +\+14 +-\n/)
  const empty = await file('empty.csv', titles)
  t.match(await cli('reconcile', empty, '--from', day, '--to', tomorrow), {
    code: 1,
    out: / m +prompt +- +14 /,
  })
  t.match(await cli('reconcile', empty), { code: 2, err: /has no counts/ })
  t.match(await cli('reconcile', empty, '--to', day), { code: 2, err: /has no counts/ })
  t.match(await cli('reconcile', csv, '--to', day), { code: 2, err: /has no counts/ })
})

t.test('wrong words and lines are wrong use', async (t) => {
  const csv = await file('wrong.csv', titles, `${day},m,14`)
  t.match(await cli('reconcile', csv), { code: 2, out: '', err: /wrong\.csv:2: it has 3 columns/ })
  t.match(await cli('reconcile', csv, '--from', '30d'), { code: 2, err: /--from takes a day/ })
  t.match(await cli('reconcile', csv, '--tolerance', 'some'), { code: 2, err: /no tolerance/ })
  t.match(await cli('reconcile', csv, '--time-zone', 'Mars'), { code: 2, err: /no time zone/ })
  t.match(await cli('reconcile', csv, '--map', 'x'), { code: 2, err: /no pair/ })
  t.match(await cli('reconcile', join(folder, 'absent')), { code: 2, err: /cannot be read/ })
})

t.test('the days are those of the time zone in gateway.yaml', async (t) => {
  const zoned = await startGateway(t, {
    yaml: "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\nplugins: { metering: { time_zone: Pacific/Kiritimati } }",
  })
  const { ref } = await zoned.gateway.accounts.createAccount({ name: 'a' })
  await zoned.gateway.ledger.settle(makeHold({ id: newHoldId(), ref }), used(30))
  const here = new Date(Date.now() + 14 * 3_600_000).toISOString().slice(0, 10)
  const csv = await file('zone.csv', titles, `${here},m,7,5`)
  const env = { TOLLGATE_ADMIN_TOKEN: adminToken }
  const ran = await runCli(['reconcile', csv, '--admin', zoned.adminUrl], { env })
  t.match(ran, { code: 0, out: /Pacific\/Kiritimati/ }, ran.out)
})
