import t from 'tap'
import type { Test } from 'tap'
import { createClientAddress, networkOf } from '../../src/http/client-address.ts'
import { readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'

async function addressOf(t: Test, trusted: readonly string[], forwarded: readonly string[]) {
  const clientAddress = createClientAddress(trusted)
  const listener = await startListener(
    t,
    readAndAnswer((_body, req) => ({
      status: 200,
      body: JSON.stringify({ ip: clientAddress(req) }),
    })),
  )
  const client = await rawClient(t, listener.port)
  const lines = forwarded.map((value) => `X-Forwarded-For: ${value}\r\n`).join('')
  return (await client.ask(`GET / HTTP/1.1\r\nHost: a\r\n${lines}\r\n`)).json.ip
}

t.test('without trusted proxies, X-Forwarded-For is ignored', async (t) => {
  t.equal(await addressOf(t, [], ['192.0.2.1']), '127.0.0.1')
  t.equal(await addressOf(t, ['10.0.0.0/8'], ['192.0.2.1']), '127.0.0.1')
})

t.test('behind trusted proxies, the address is the nearest one that is not a proxy', async (t) => {
  const trusted = ['127.0.0.0/8', '10.0.0.0/8', '2001:db8:1::/48']
  const cases: [string[], string][] = [
    [[], '127.0.0.1'],
    [['192.0.2.1'], '192.0.2.1'],
    [['6.6.6.6, 192.0.2.1'], '192.0.2.1'],
    [['6.6.6.6, 192.0.2.1, 10.1.2.3'], '192.0.2.1'],
    [['6.6.6.6, 192.0.2.1', '10.1.2.3'], '192.0.2.1'],
    [['6.6.6.6, 192.0.2.1, 2001:db8:1::5'], '192.0.2.1'],
    [['10.0.0.1, 10.0.0.2'], '10.0.0.1'],
    [['2001:db8:2::1'], '2001:db8:2::1'],
    [['6.6.6.6, ::ffff:192.0.2.1, ::FFFF:10.0.0.1'], '192.0.2.1'],
    [['192.0.2.1:4711'], '192.0.2.1'],
    [['[2001:db8:2::1]:4711'], '2001:db8:2::1'],
    [['6.6.6.6, unknown, 10.0.0.1'], '10.0.0.1'],
    [['6.6.6.6, '], '127.0.0.1'],
    [['rubbish'], '127.0.0.1'],
  ]
  for (const [forwarded, ip] of cases) {
    t.equal(await addressOf(t, trusted, forwarded), ip, forwarded.join(' + '))
  }
})

t.test('a single address is trusted without a prefix', async (t) => {
  t.equal(await addressOf(t, ['127.0.0.1'], ['192.0.2.1']), '192.0.2.1')
})

t.test('a network is an IPv4 address, or the first half of an IPv6 one', async (t) => {
  t.equal(networkOf('192.0.2.1'), '192.0.2.1')
  t.equal(networkOf(''), '')
  t.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64')
  t.equal(networkOf('2001:db8::1'), '2001:db8:0:0::/64')
  t.equal(networkOf('::1'), '0:0:0:0::/64')
  t.equal(networkOf('fe80::'), 'fe80:0:0:0::/64')
  t.equal(networkOf('1:2:3:4:5:6:7::'), '1:2:3:4::/64')
})
