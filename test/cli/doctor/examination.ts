import { once } from 'node:events'
import t from 'tap'
import { ok, reasonOf } from '../../../src/cli/doctor/examination.ts'
import { GatewayError } from '../../../src/errors.ts'
import { startExamination } from '../../fixtures/examination.ts'

const refused = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

t.test('a check that fails is reported with its first cause, and the next one runs', async (t) => {
  const { examination, lines } = startExamination()
  const cause = Object.assign(new Error('no such bucket'), { name: 'NoSuchBucket' })
  const error = new GatewayError('storage_unavailable', { cause })
  t.equal(await examination.check('a', () => Promise.reject(error)), 'fail')
  t.equal(await examination.check('b', async () => ok('good')), 'ok')
  t.strictSame(lines, ['fail a: NoSuchBucket: no such bucket', 'ok b: good'])
  t.equal(examination.findings[0]?.unreachable, false)
})

t.test('no answer is told apart from a bad answer', async (t) => {
  const { examination } = startExamination()
  const silent = [refused(), new AggregateError([refused()]), new Error('x', { cause: refused() })]
  for (const error of silent) await examination.check('it', () => Promise.reject(error))
  t.strictSame(
    examination.findings.map(({ unreachable }) => unreachable),
    [true, true, true],
  )
  t.equal(reasonOf(new AggregateError([refused(), refused()])).split('; ').length, 2)
  t.equal(reasonOf('a text'), 'a text')
  const bare = Object.assign(new Error('UnknownError'), { name: 'NoSuchBucket' })
  t.equal(reasonOf(bare), 'NoSuchBucket')
})

t.test('a check that does not end is ended by its time', async (t) => {
  const { examination, lines } = startExamination({ limitMs: 20 })
  const ended = Promise.withResolvers<void>()
  await examination.check('it', async (signal) => {
    signal.addEventListener('abort', () => ended.resolve())
    return new Promise(() => undefined)
  })
  await ended.promise
  t.strictSame(lines, ['fail it: no answer within 0.02 s'])
  t.equal(examination.findings[0]?.unreachable, true)
})

t.test('no secret and no control character is shown', async (t) => {
  const { examination, lines } = startExamination({ secrets: ['sk-very-secret', 'chat'] })
  await examination.check('chat', async () => ok('sk-very-secret \u001b[31m\n red'))
  t.strictSame(lines, ['ok chat: *** \ufffd[31m red'])
  await examination.check('it', async () => ok('x'.repeat(10_000)))
  t.ok((lines[1] ?? '').length < 500)
})

t.test('Ctrl-C ends the running check and all that follow; tidying goes on', async (t) => {
  const stop = new AbortController()
  const { examination, lines } = startExamination({ signal: stop.signal })
  const begun = Promise.withResolvers<void>()
  const running = examination.check('it', async (signal) => {
    begun.resolve()
    await once(signal, 'abort')
    return ok('not told')
  })
  await begun.promise
  stop.abort(new Error('Ctrl-C'))
  await t.rejects(running, { message: 'Ctrl-C' })
  await t.rejects(
    examination.check('next', async () => ok('')),
    { message: 'Ctrl-C' },
  )
  let isTidied = false
  await examination.tidy('tidying', async (signal) => void (isTidied = !signal.aborted))
  t.ok(isTidied)
  t.strictSame(lines, [])
  await examination.tidy('tidying', () => Promise.reject(new Error('is stuck')))
  t.strictSame(lines, ['fail tidying: is stuck'])
})
