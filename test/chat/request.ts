// What a backend gets of a request, byte for byte, and which requests are refused before anything is held.

import t from 'tap'
import { bothWays } from '../fixtures/both-ways.ts'
import { chat } from '../fixtures/backend-model.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'
import { chatRow } from '../../src/config/endpoints.ts'
import { parseChatRequest } from '../../src/chat/request.ts'

const target = targetOf('http://127.0.0.1:1')

/** Parses a body without a gateway. */
function chatOf(body: Buffer) {
  const request = parseChatRequest(body, chatRow, () => modelOf([target]))
  if (!request) throw new TypeError('no request')
  return request
}

const bodyOf = (body: Buffer | undefined) => body?.toString() ?? ''

t.test("a body is passed on byte for byte, apart from the gateway's own fields", async (t) => {
  const { backend, ask } = await chatPath(t, {
    target: 'model: real',
    model: "max_output_tokens: 50, extra_parameters: ['*']",
  })
  const body =
    '{ "zz":12345678901234567890, "model":"m" ,"messages":[{"role":"user","content":"\\u00e9ü"}],' +
    '"seed":1.0,"max_tokens":9007199254740991,"x":{"b":1,"a":2}}'
  t.equal((await ask(body)).status, 200)
  t.equal(
    bodyOf(backend.requests[0]?.body),
    body.replace('"m"', '"real"').replace('9007199254740991', '50'),
  )
})

t.test('a target gets what it accepts', async (t) => {
  await t.test("streams ask for usage, beside the client's options", async (t) => {
    const { backend, ask } = await chatPath(t, { model: 'max_output_tokens: 5' })
    const stream_options = { include_obfuscation: false, include_usage: null }
    await (await ask({ ...hi, stream: true, stream_options })).text()
    t.strictSame(JSON.parse(bodyOf(backend.requests[0]?.body)), {
      ...hi,
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
      max_tokens: 5,
    })
  })
  await t.test('a target that refuses usage is not asked; one field has the limit', async (t) => {
    const { backend, ask } = await chatPath(t, {
      target: 'include_usage: false, max_tokens_field: max_completion_tokens',
    })
    await (await ask({ ...hi, stream: true, max_tokens: 7 })).text()
    t.strictSame(JSON.parse(bodyOf(backend.requests[0]?.body)), {
      ...hi,
      stream: true,
      max_completion_tokens: 7,
    })
  })
})

t.test('invalid counts are refused, null counts as absent', async (t) => {
  const { backend, ask } = await chatPath(t)
  for (const field of ['max_tokens', 'max_completion_tokens', 'n', 'best_of']) {
    for (const value of [0, -1, 1.5, '5', true, []]) {
      const answer = await ask({ ...hi, [field]: value })
      t.equal(answer.status, 400)
      t.match(await answer.json(), { error: { code: 'invalid_parameter', param: field } })
    }
    t.equal((await ask({ ...hi, [field]: null })).status, 200)
  }
  t.equal(backend.requests.length, 4, 'no refused one reached the backend')
  t.equal(await codeOf(await ask({ ...hi, stream: 'yes' })), 'invalid_parameter')
  t.equal(await codeOf(await ask({ model: 'm' })), 'missing_parameter')
  t.equal(await codeOf(await ask({ messages: [] })), 'missing_parameter')
  t.equal(await codeOf(await ask('{"model":"m","model":"m","messages":[]}')), 'invalid_json')
})

t.test('a prompt whose backend reports nothing is charged by the tokenizer', async (t) => {
  const { backend, ask, spent } = await chatPath(t)
  backend.on(chat({ chunks: 1, text: () => 'yes', usage: 'never' }))
  const content = 'tokenization '.repeat(500)
  await (await ask({ model: 'm', messages: [{ role: 'user', content }] })).text()
  const cost = await spent()
  t.ok(cost > 500 && cost < 1200, `${cost}: about two tokens a word, not a byte estimate of 2600`)
})

t.test('usage can not be switched off, however the options are spelt', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { model: "extra_parameters: ['*']" })
  // A Go server ignores the case of keys, and the last one wins.
  backend.on(async (call) => {
    const sent = String(backend.requests.at(-1)?.body)
    const said = [...sent.matchAll(/"([^"]+)" *: *(true|false)/g)].filter(
      ([, key]) => JSON.parse(`"${key}"`).toLowerCase() === 'include_usage',
    )
    const usage = said.at(-1)?.[2] === 'true' ? {} : { usage: 'never' as const }
    await chat({ chunks: 1, ...usage })(call)
  })
  const refused = [
    '{"include_usage":true,"Include_Usage":false}',
    '{"include_usage":true,"INCLUDE_USAGE":false}',
    '{"include_u\u017fage":false}',
    '{"include_usage":true,"include_usage":false}',
    '{"include_usage":false,"include_usage":true}',
    '{"include_usage":true,"\\u0069nclude_usage":false}',
    '{"include_usage":true,"x":{}}',
    '{"include_usage":"no"}',
    '[]',
  ]
  const asking = (options: string) =>
    ask(`{"model":"m","messages":[],"stream":true,"stream_options":${options}}`)
  for (const options of refused) t.equal((await asking(options)).status, 400, options)
  t.equal(backend.requests.length, 0)
  for (const options of [
    '{}',
    'null',
    '{"include_usage":false}',
    '{ "\\u0069nclude_usage":false}',
  ]) {
    await (await asking(options)).text()
    t.match(
      bodyOf(backend.requests.at(-1)?.body),
      '"stream_options":{"include_usage":true}',
      options,
    )
  }
  t.equal(await spent(), 8, 'each was charged what the backend reported')
})

t.test('each account has its own salt, if the target takes one', async (t) => {
  const { backend, gate, ask } = await chatPath(t, { target: 'cache_salt: true, key: backend-key' })
  const { key } = await gate.account(1000)
  for (const _ of [1, 2]) await (await ask()).text()
  await (await gate.call('/v1/chat', key, hi)).text()
  const salts = backend.requests.map(({ body }) => JSON.parse(bodyOf(body)).cache_salt as string)
  t.equal(salts[0], salts[1])
  t.not(salts[0], salts[2])
  t.match(salts[0], /^[\w-]{43}$/)
})

t.test('the salts of two targets tell nothing of each other', async (t) => {
  const saltAt = (own: { readonly key?: string }) => {
    const salted = { ...target, cacheSalt: true, ...own }
    const asker = { caller: { ref: 'AAAAAAAAAAAA', hmac: '', scope: '' as const } }
    const pieces = chatOf(Buffer.from(JSON.stringify(hi))).bodyFor(salted, asker)
    return (JSON.parse(bodyOf(Buffer.concat(pieces))) as { cache_salt: string }).cache_salt
  }
  const salt = saltAt({ key: 'secret' })
  t.equal(saltAt({ key: 'secret' }), salt)
  t.not(saltAt({ key: 'other' }), salt)
  t.not(saltAt({}), salt)
})

bothWays(t, 'freed-buffers')(
  'a large body is forgotten, its prompt is counted',
  async (t, isPlain) => {
    const long = 'word '.repeat(300_000)
    const body = Buffer.from(
      JSON.stringify({ model: 'm', messages: [{ role: 'user', content: long }] }),
    )
    const fresh = () => chatOf(body)
    const expected = await fresh().countPrompt()
    const request = fresh()
    t.equal(request.forgetBody({ isSent: true }), 0)
    t.equal(request.forgetBody({ isSent: true }), 0)
    t.ok(Math.abs((await request.countPrompt()) / expected - 1) < 0.05)
    t.equal(body.length === 0, !isPlain, 'and its memory is free')
    t.throws(() => request.bodyFor(target, { grantedPerChoice: 5 }), TypeError)
  },
)

t.test('of a smaller body the bytes are kept, and nothing that was parsed', async (t) => {
  const body = Buffer.from(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
  )
  const request = chatOf(body)
  const expected = await request.countPrompt()
  t.equal(request.forgetBody({ isSent: true }), body.length)
  t.equal(await request.countPrompt(), expected)
  t.throws(() => request.bodyFor(target, { grantedPerChoice: 5 }), TypeError)
})

t.test('content at an address counts, whatever type its part claims', async (t) => {
  const parts = [
    '{"type":"image_url","image_url":{"url":"https://x.test/a"}}',
    '{"type":"video_url","video_url":{"url":"https://x.test/a"}}',
    '{"type":"input_image","image_url":"https://x.test/a"}',
    '{"image_url":{"url":"https://x.test/a"}}',
    '{"type":"image_url","im\\u0061ge_url":{"url":"https://x.test/a"}}',
  ]
  for (const part of parts) {
    const body = `{"model":"m","messages":[{"role":"user","content":[${part}]}]}`
    const { promptTokens, mostPrompt } = chatOf(Buffer.from(body))
    t.ok(promptTokens > 16 * 1500 && promptTokens < 17 * 1500, part)
    t.ok(mostPrompt > 64 * 1500, part)
  }
})

t.test('a body that was not sent whole keeps its bytes', async (t) => {
  const content = 'word '.repeat(300_000)
  const text = JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] })
  const body = Buffer.from(text)
  const request = chatOf(body)
  t.equal(request.forgetBody({ isSent: false }), body.length, 'and its share of memory')
  await request.countPrompt()
  t.equal(body.toString(), text)
})

t.test('a grant that is larger than what client and model allow changes nothing', async (t) => {
  const most = (max_tokens?: number, grantedPerChoice?: number) => {
    const request = chatOf(Buffer.from(JSON.stringify({ ...hi, max_tokens })))
    const pieces = request.bodyFor(target, { grantedPerChoice })
    return (JSON.parse(bodyOf(Buffer.concat(pieces))) as { max_tokens: number }).max_tokens
  }
  t.equal(most(7, 1_000_000_000), 7)
  t.equal(most(7), 7)
  t.equal(most(undefined, 1_000_000_000), most())
})

t.test('a large body is not copied for a target', async (t) => {
  const pad = 'x'.repeat(9_000_000)
  const body = Buffer.from(`{"model":"m","messages":[],"pad":"${pad}","max_tokens":7}`)
  const sent = chatOf(body).bodyFor(target, { grantedPerChoice: 5 })
  t.ok(sent.every((piece) => piece.length < 64 || piece.buffer === body.buffer))
  t.same(JSON.parse(sent.join('')).max_tokens, 5)
  t.equal(JSON.parse(sent.join('')).pad, pad)
})
