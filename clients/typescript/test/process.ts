// A process that uses the client ends when its own work is done.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'

const frame = 'data: {"choices":[]}\n\n'

test('no time-out keeps a process alive', async (t) => {
  const server = createServer((request, response) => {
    if (request.method === 'GET') return void response.end('{"object":"billing.balance"}')
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-message-id': 'm' })
    response.write(frame)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const program = `
    import { Tollgate } from '${import.meta.resolve('../src/tollgate.ts')}'
    const gate = new Tollgate({ apiKey: 'k', baseURL: '${url}' })
    await gate.billing.balance()
    for await (const chunk of await gate.messages.create('s', { content: 'Hi' })) break
    console.log('done')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program])
  t.after(() => child.kill('SIGKILL'))
  const from = performance.now()
  const [code] = (await once(child, 'exit')) as [number | null]
  assert.equal(code, 0)
  assert.ok(performance.now() - from < 10_000)
})
