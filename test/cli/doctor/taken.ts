import t from 'tap'
import type { Test } from 'tap'
import { askWhatIsTaken } from '../../../src/cli/doctor/taken.ts'
import { startBackend } from '../../fixtures/backend.ts'
import type { Script } from '../../fixtures/backend.ts'
import { chat } from '../../fixtures/backend-model.ts'
import { json, silent, sse } from '../../fixtures/backend-scripts.ts'
import { modelOf, targetOf } from '../../fixtures/target.ts'

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }

/** A backend that knows every parameter. */
const knowing: Script = async (call) => {
  const { stream, stream_options, n = 1, logprobs } = call.json as Record<string, number>
  const { continuous_usage_stats: isContinuous } = Object(stream_options) as Record<string, boolean>
  const choice = {
    message: { content: '{' },
    finish_reason: 'length',
    logprobs: logprobs ? {} : null,
  }
  const whole = { choices: Array.from({ length: n }, () => choice), usage }
  if (!stream) return json(whole)(call)
  const first = { choices: [{ delta: { content: '{' } }], ...(isContinuous && { usage }) }
  const last = { choices: [], usage }
  return sse(
    [first, last].map(
      (chunk) => `data: ${JSON.stringify(chunk)}

`,
    ),
  )(call)
}

const strict: Script = async (call) => {
  const known = ['model', 'messages', 'max_tokens', 'stream']
  const strange = Object.keys(call.json).find((key) => !known.includes(key))
  if (strange === undefined) return knowing(call)
  return json({ error: { message: `what is ${strange}?` } }, 400)(call)
}

async function ask(test: Test, script: Script, limitMs = 5000) {
  const backend = await startBackend(test, script)
  const target = targetOf(backend.url)
  const { signal } = new AbortController()
  const outcome = await askWhatIsTaken({ model: modelOf([target]), target, signal, limitMs })
  test.equal(outcome.verdict, 'ok')
  return { backend, detail: outcome.detail }
}

t.test('the parameters that a target takes, ignores and refuses', async (t) => {
  const all =
    'max_completion_tokens, n, logprobs, tools, response_format, top_k, min_p, ' +
    'stream_options.include_usage, stream_options.continuous_usage_stats'
  const known = await ask(t, knowing)
  t.equal(known.detail, `takes ${all}; cost 9 tokens there`)
  t.equal(known.backend.requests.length, 9)
  t.match((await ask(t, strict)).detail, /^refuses max_completion_tokens, n, /)
  t.match((await ask(t, chat({ chunks: 3 }))).detail, /^takes .*; ignores logprobs, .*continuous/)
})

t.test('a target that does not answer is not waited for longer than the check has', async (t) => {
  const { detail } = await ask(t, silent, 200)
  t.match(detail, /^does not tell max_completion_tokens, /)
})
