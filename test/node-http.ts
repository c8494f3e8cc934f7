// No part of the gateway loads undici, which Node brings along for fetch and WebSocket.

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { root } from './fixtures/source.ts'

function hasUndici(...lines: readonly string[]): boolean {
  const lookup =
    'console.log(process.moduleLoadList.some((name) => name.endsWith("deps/undici/undici")))'
  const args = ['--input-type=module', '--eval', [...lines, lookup].join('\n')]
  return execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' }).trim() === 'true'
}

t.test('the gateway and all of its plugins load without undici', async (t) => {
  const gateway = JSON.stringify(join(root, 'src/gateway.ts'))
  t.equal(hasUndici(`await import(${gateway})`), false)
  t.equal(hasUndici(`import 'node:http'`), true, 'which an import of node:http loads')
})
