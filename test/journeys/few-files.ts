// A gateway that has no file descriptor left: its fault is not its backends', costs nobody anything, and ends with its cause.

import { execFileSync } from 'node:child_process'
import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { noFullDisk } from '../fixtures/full-disk.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ask, balanceOf, differencesOf } from '../fixtures/money.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

interface Listed {
  readonly data: readonly { readonly targets: readonly { readonly state: string }[] }[]
}

t.test(
  'without descriptors it says so itself, and no target is blamed',
  { skip: noFullDisk },
  async (t) => {
    const backend = await startBackend(t, chat({ chunks: 3 }))
    const yaml = `models: { m: { targets: [{ url: '${backend.url}' }], breaker: { failures: 1 } } }`
    const gateway = await spawnGateway(t, { yaml })
    const account = await gateway.account(1000)
    const limit = (soft: number) =>
      execFileSync('prlimit', ['--pid', `${gateway.pid}`, `--nofile=${soft}:`])
    const body = JSON.stringify(ask(10, true))
    // One connection, because the gateway could take no other.
    const client = await rawClient(t, Number(new URL(gateway.url).port))
    const request = () =>
      client.ask(
        `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${account.key}\r\n`,
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
    const outcomes = (outcome: string) =>
      metricOf(
        gateway,
        `tollgate_upstream_requests_total{model="m",target="1",outcome="${outcome}"}`,
      )
    const state = async () => {
      const { data } = (await (await gateway.admin('GET', 'targets')).json()) as Listed
      return data[0]?.targets[0]?.state
    }
    t.match(await balanceOf(gateway, account), { spent: 0 })
    const usual = await metricOf(gateway, 'process_max_fds')
    // Numbers 0 to 2 are taken, so nothing more can be opened.
    limit(3)
    t.equal(await metricOf(gateway, 'process_max_fds'), usual, 'the last that could be read')
    t.equal(await metricOf(gateway, 'process_open_fds'), usual, 'all, so that the alert sees it')
    for (let i = 0; i < 10; i++) {
      const answer = await request()
      t.equal(answer.status, 503)
      t.match(answer.json, { error: { code: 'overloaded' } })
    }
    const line = gateway.log.findLast((one) => one.includes('"code":"overloaded"')) ?? '{}'
    t.match(JSON.parse(line), { source: 'gateway', err: { message: /EMFILE/ } })
    t.same(await outcomes('failed'), NaN, 'none')
    t.equal(await state(), 'up')

    limit(1000)
    await until(async () => (await metricOf(gateway, 'process_max_fds')) === 1000)
    t.ok((await metricOf(gateway, 'process_open_fds')) < 1000)
    t.match((await request()).body.toString(), /\[DONE\]/)
    await until(async () => (await outcomes('complete')) >= 1)
    t.equal(await state(), 'up')
    t.match(await balanceOf(gateway, account), { reserved: 0 })
    t.same(await differencesOf(gateway), [])
  },
)
