// What a target's answer to its check means, when a target becomes unhealthy and healthy, and that a check ends: it is
// bounded, alone, and over when nobody wants it. With a gateway: test/journeys/health-check.ts.

import { createServer } from 'node:https'
import t from 'tap'
import type { Test } from 'tap'
import { HealthChecks, askHealth } from '../../src/backend/health-check.ts'
import { Targets } from '../../src/backend/targets.ts'
import type { Model, Target } from '../../src/config/config.ts'
import { createLog } from '../../src/log.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import {
  behind,
  bytes,
  failing,
  garbage,
  json,
  longLine,
  raw,
  redirect,
  replay,
  reset,
  silent,
  sse,
} from '../fixtures/backend-scripts.ts'
import { certificate } from '../fixtures/certificate.ts'
import { freePort } from '../fixtures/free-port.ts'
import { Gate } from '../fixtures/gate.ts'
import { listenOn } from '../fixtures/listen.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { soon, until } from '../fixtures/until.ts'
import { withoutFiles } from '../fixtures/without-files.ts'

const hour = 3_600_000
const settings = { path: '/health', intervalMs: hour, timeoutMs: 10_000, fails: 3, passes: 2 }
const { signal } = new AbortController()

const passed: Readonly<Record<string, Script>> = {
  '200': json({ status: 'ok' }),
  '200 without a body': bytes(''),
  '204': bytes('', { status: 204 }),
  '429': failing(429),
  'an answer without end': longLine(Infinity),
}

const failed: Readonly<Record<string, readonly [Script, string]>> = {
  '500': [failing(500), 'status 500'],
  '503 for another reason': [failing(503), 'status 503'],
  '404': [failing(404), 'status 404'],
  '401': [failing(401), 'status 401'],
  'a redirect': [redirect('http://127.0.0.1:1/'), 'status 302'],
  'a reset': [reset, 'ECONNRESET'],
  'no HTTP': [garbage, 'HPE_INVALID_CONSTANT'],
  'headers without end': [
    raw(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(99_999)}`),
    'HPE_HEADER_OVERFLOW',
  ],
  'a body that is cut': [sse(['data'], { end: 'cut' }), 'ECONNRESET'],
}

t.test('what an answer means', async (t) => {
  for (const [name, script] of Object.entries(passed)) {
    const backend = await startBackend(t, script)
    t.equal(await askHealth(targetOf(backend.url), settings, signal), 'passed', name)
    await until(() => backend.open === 0)
  }
  for (const [name, [script, failure]] of Object.entries(failed)) {
    const backend = await startBackend(t, script)
    t.same(await askHealth(targetOf(backend.url), settings, signal), { failure }, name)
  }
  const body = { error: 'Model m is currently loading', estimated_time: 20 }
  for (const script of [replay('llama-loading.http'), failing(503, { body })]) {
    const backend = await startBackend(t, script)
    t.equal(await askHealth(targetOf(backend.url), settings, signal), 'loading')
  }
})

t.test('a target that is not reached, or says nothing in time, has failed', async (t) => {
  const refusing = targetOf(`http://127.0.0.1:${await freePort()}/v1`)
  t.same(await askHealth(refusing, settings, signal), { failure: 'ECONNREFUSED' })
  for (const script of [silent, sse(['data'], { end: false })]) {
    const backend = await startBackend(t, script)
    const asked = askHealth(targetOf(backend.url), { ...settings, timeoutMs: 50 }, signal)
    t.same(await asked, { failure: 'time-out' })
    await until(() => backend.open === 0)
  }
})

t.test('an answer that came while the gateway stood still has come in time', async (t) => {
  const backend = await startBackend(t, ({ res }) => {
    res.end('{}')
    standStill(300)
  })
  t.equal(await askHealth(targetOf(backend.url), { ...settings, timeoutMs: 200 }, signal), 'passed')
})

t.test('it asks at the root of the host, with the key, over the trusted TLS', async (t) => {
  const seen: (string | undefined)[] = []
  const server = createServer(certificate, (req, res) => {
    seen.push(req.method, req.url, req.headers.authorization)
    res.end()
  })
  const { port } = await listenOn(t, server)
  const url = `https://localhost:${port}/deep/v1?api-version=1`
  const target = targetOf(url, { key: 'sk-1', ca: certificate.cert })
  const path = '/health?x=1'
  t.equal(await askHealth(target, { ...settings, path }, signal), 'passed')
  t.strictSame(seen, ['GET', '/health?x=1', 'Bearer sk-1'])
  t.match(await askHealth(targetOf(url), settings, signal), { failure: /SELF_SIGNED|UNABLE/ })
})

/** The first check comes at once; `check` are settings of its target. */
async function checking(t: Test, script: Script, check: Partial<typeof settings> = {}) {
  const backend = await startBackend(t, script)
  const targets = new Targets()
  const log: string[] = []
  const checks = new HealthChecks(targets, {
    log: createLog({ level: 'info', format: 'json', write: (line) => log.push(line) }),
    random: () => 0,
  })
  t.teardown(() => checks.close())
  const modelWith = (part: Partial<Target>): Model => modelOf([targetOf(backend.url, part)])
  const follow = (...models: readonly Model[]) =>
    checks.follow(new Map(models.map((model) => [model.id, model])))
  const withCheck = (more: Partial<typeof settings> = {}) =>
    modelWith({ healthCheck: { ...settings, ...check, ...more } })
  const [state] = targets.statesOf(withCheck())
  if (!state) throw new Error('no state')
  return { backend, targets, checks, log, state, follow, modelWith, withCheck }
}

t.test('so many failures in a row make it unhealthy, so many passes healthy again', async (t) => {
  const { backend, log, state, follow, withCheck } = await checking(t, failing(500), {
    intervalMs: 5,
  })
  const gate = new Gate()
  const [good, bad] = [behind(gate, json({})), behind(gate, failing(500))]
  const loads = behind(gate, replay('llama-loading.http'))
  for (const script of [bad, bad, good, bad, bad, loads, bad, bad, bad, good, bad, good, good]) {
    backend.once(script)
  }
  backend.on(good)
  follow(withCheck())
  const seen: boolean[] = []
  for (let i = 0; i < 13; i++) {
    await backend.request(i)
    gate.next(1)
    // The next check comes after this one was judged.
    await backend.request(i + 1)
    seen.push(state.isUnhealthy)
  }
  t.strictSame(seen.indexOf(true), 8, 'the third in a row')
  t.strictSame(seen.indexOf(false, 8), 12, 'the second in a row')
  gate.open()
  t.equal(log.length, 2)
  t.match(JSON.parse(log[0] ?? ''), {
    level: 'warn',
    model: 'm',
    target: state.target.name,
    failure: 'status 500',
  })
  t.match(JSON.parse(log[1] ?? ''), { level: 'info', msg: /passes/ })
  t.notMatch(log.join(), /127\.0\.0\.1/)
})

t.test('a check for which no file descriptor is left says nothing of its target', async (t) => {
  const { backend, targets, log, follow } = await checking(t, failing(500))
  const healthCheck = { ...settings, intervalMs: 5, fails: 1 }
  const model = modelOf([targetOf(`http://localhost:${backend.port}/v1`, { healthCheck })])
  const [state] = targets.statesOf(model)
  const files = withoutFiles(t)
  follow(model)
  // The second try comes after the first one was judged.
  await until(() => files.tries() >= 2)
  t.equal(state?.isUnhealthy, false)
  t.strictSame(log, [])
  files.end()
  await until(() => state?.isUnhealthy === true)
})

t.test('a target that loads its model is loading until a check says otherwise', async (t) => {
  const { backend, log, state, follow, withCheck } = await checking(
    t,
    replay('llama-loading.http'),
    { intervalMs: 5, fails: 1 },
  )
  follow(withCheck())
  await backend.request(3)
  t.equal(state.show().state, 'loading')
  backend.on(json({}))
  await until(() => state.show().state === 'up')
  backend.on(replay('llama-loading.http'))
  await until(() => state.show().state === 'loading')
  backend.on(failing(500))
  await until(() => state.show().state === 'unhealthy')
  t.equal(state.isLoading, false)
  t.equal(log.length, 1)
})

t.test('who waits is served as soon as a target is healthy', async (t) => {
  const { targets, state, follow, withCheck } = await checking(t, json({}), { passes: 1 })
  state.isUnhealthy = true
  const model = { ...withCheck(), maxConcurrency: 1 }
  const busy = targets.candidatesFor(model, 'x')
  const seat = busy.next()
  const waiting = targets.candidatesFor(model, 'x')
  const got = waiting.wait(signal)
  // Nobody tells that there is room, but the check.
  seat?.leave()
  follow(model)
  const second = await soon(got)
  t.equal(state.isUnhealthy, false)
  second.release()
})

t.test('a target has one check at a time', async (t) => {
  const gate = new Gate()
  const { backend, follow, withCheck } = await checking(t, behind(gate, json({})), {
    intervalMs: 1,
  })
  const other = await startBackend(t, json({}))
  const healthCheck = { ...settings, intervalMs: 1 }
  follow(withCheck(), modelOf([targetOf(other.url, { healthCheck })], { id: 'other' }))
  await other.request(20)
  t.equal(backend.requests.length, 1)
  gate.open()
  await backend.request(3)
})

t.test('what has not changed goes on through a reload', async (t) => {
  const gate = new Gate()
  const { backend, state, follow, withCheck } = await checking(t, behind(gate, failing(500)), {
    fails: 1,
  })
  follow(withCheck())
  await backend.request(0)
  for (let i = 0; i < 3; i++) follow(withCheck())
  gate.open()
  await until(() => state.isUnhealthy)
  t.equal(backend.requests.length, 1)
})

t.test('a check with other settings takes the place of the one before', async (t) => {
  const { backend, state, follow, withCheck } = await checking(t, silent)
  follow(withCheck())
  const first = await backend.request(0)
  state.isUnhealthy = true
  follow(withCheck({ path: '/v1/models' }))
  t.ok(await soon(first.closed))
  t.equal((await backend.request(1)).path, '/v1/models')
  t.equal(state.isUnhealthy, true, 'until it says otherwise')
})

t.test('without a check, or without its target, nothing is asked any more', async (t) => {
  for (const hasTarget of [true, false]) {
    const { backend, state, follow, modelWith, withCheck } = await checking(t, silent)
    follow(withCheck())
    const { closed } = await backend.request(0)
    state.isUnhealthy = true
    if (hasTarget) follow(modelWith({}))
    else follow()
    t.equal(state.isUnhealthy, false)
    t.ok(await soon(closed))
    t.equal(backend.requests.length, 1)
  }
})

t.test('close waits for what is under way, and nothing comes after it', async (t) => {
  const { backend, checks, log, state, follow, withCheck } = await checking(t, silent, {
    fails: 1,
  })
  follow(withCheck())
  const { closed } = await backend.request(0)
  await soon(checks.close())
  t.ok(await soon(closed))
  t.equal(state.isUnhealthy, false, 'an end is no verdict')
  t.strictSame(log, [])
})

t.test('a configuration that is taken up after the close is not checked', async (t) => {
  let begun = 0
  const random = () => {
    begun++
    return 0
  }
  const { backend, targets, withCheck } = await checking(t, silent)
  const checks = new HealthChecks(targets, {
    log: createLog({ level: 'silent', format: 'json' }),
    random,
  })
  t.teardown(() => checks.close())
  const follow = () => checks.follow(new Map([['m', withCheck()]]))
  follow()
  await backend.request(0)
  await checks.close()
  follow()
  t.equal(begun, 1, 'none has begun since')
})
