// The first five minutes: start with nothing but the built-in model, paste what is printed, start again.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import { reaches } from '../../src/plain.ts'
import { startProcess } from '../fixtures/process.ts'
import { redisServerPath } from '../fixtures/redis-server.ts'

const main = fileURLToPath(new URL('../../src/tollgate.cjs', import.meta.url))

const yaml = `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: 127.0.0.1:0 }
models: { demo: { targets: [demo] } }
`

async function start(t: Test, dir: string, more: Readonly<Record<string, string>> = {}) {
  const env = { PATH: process.env.PATH ?? '', REDIS_SERVER: await redisServerPath(), ...more }
  return startProcess(t, [process.execPath, main, '--config', `${dir}/gateway.yaml`], { env })
}

/** Runs the lines that the start has printed, and resolves with their output. */
async function paste(t: Test, log: readonly string[]): Promise<readonly string[]> {
  const lines = log.filter((line) => line.trim().startsWith('curl '))
  t.equal(lines.length, 3)
  const sh = promisify(execFile)
  const answers: string[] = []
  for (const line of lines) answers.push((await sh('sh', ['-c', `${line} -sS --fail`])).stdout)
  return answers
}

t.test(
  'a first start prints a key and lines that work when pasted; a second makes nothing',
  async (t) => {
    const dir = t.testdir({ 'gateway.yaml': yaml })
    const first = await start(t, dir)
    await first.said(/curl .*\/files\/upload/)
    const [, docs = ''] = await first.said(/^ {2}docs {5}(\S+)$/)
    t.match(await (await fetch(docs)).text(), /<title>/, 'the page of the API opens')
    await first.said(/^ {2}account {2}npm run -s tollgate -- portal demo /)
    const [stream = '', balance = '', file = ''] = await paste(t, first.log)
    t.match(stream, /data: \[DONE\]\n\n$/)
    t.match(JSON.parse(balance), { object: 'billing.balance', granted: 1_000_000, reserved: 0 })
    t.ok((JSON.parse(balance) as { spent: number }).spent > 0, 'the stream was charged')
    t.match(JSON.parse(file), { object: 'file', filename: 'package.json' })
    t.equal(await first.stop(), 0)

    const second = await start(t, dir)
    const [, url = ''] = await second.said(/listening on (\S+),/)
    t.notMatch(second.log.join(), /tg_live_/)
    const authorization = `Bearer ${/tg_live_\w+/.exec(first.log.join())?.[0]}`
    const kept = await fetch(`${url}/api/billing/balance`, { headers: { authorization } })
    const before = JSON.parse(balance) as { spent: number }
    t.equal(
      ((await kept.json()) as { spent: number }).spent,
      before.spent,
      'what was charged is kept',
    )
    t.equal(await second.stop(), 0)
  },
)

t.test('it also works without any shortcut past a library, and says so', async (t) => {
  const gateway = await start(t, t.testdir({ 'gateway.yaml': yaml }), { TOLLGATE_PLAIN: 'all' })
  await gateway.said(/curl .*\/files\/upload/)
  const [stream, balance = '', file = ''] = await paste(t, gateway.log)
  t.match(stream, /data: \[DONE\]\n\n$/)
  t.match(JSON.parse(balance), { object: 'billing.balance', granted: 1_000_000, reserved: 0 })
  t.match(JSON.parse(file), { object: 'file', filename: 'package.json' })
  const [starting] = await gateway.said(/^\{.*"msg":"starting"\}$/)
  t.strictSame((JSON.parse(starting) as { plain?: unknown }).plain, reaches)
  t.equal(await gateway.stop(), 0)
})
