import t from 'tap'
import { readFileSync } from 'node:fs'
import { refusalFor } from '../../../src/chat/parameter-check.ts'
import { scanJson } from '../../../src/http/json/scan.ts'
import { ownKeys, readParameters } from '../../../src/sessions/sending/parameters.ts'

const read = (body: string) => readParameters(scanJson(Buffer.from(body), ownKeys))
const refused = (param: string) => ({ code: 'invalid_parameter', param })

void t.test('a parameter is passed on as it was written', async (t) => {
  const { parameters, unlisted } = read(
    '{"content":"Hi","seed" : 12345678901234567890 ,"stop":["\\u00e9", "报"],"temperature":0.10,"user":null}',
  )
  t.strictSame(
    [...parameters],
    [
      ['seed', '12345678901234567890'],
      ['stop', '["\\u00e9", "报"]'],
      ['temperature', '0.10'],
      ['user', 'null'],
    ],
  )
  t.strictSame(unlisted, [])
})

void t.test('fields that the gateway writes itself are not passed on', async (t) => {
  const body =
    '{"messages":[],"model":"m","stream":true,"on_disconnect":"cancel","n":1,"store":true}'
  t.equal(read(body).parameters.size, 0)
  t.equal(read('{"n":null,"store":null,"metadata":null,"functions":null}').parameters.size, 0)
})

void t.test('parameters that a session can not have are refused', async (t) => {
  for (const n of ['2', '0', '"1"', '1.5']) t.throws(() => read(`{"n":${n}}`), refused('n'))
  t.throws(() => read('{"best_of":3}'), refused('best_of'))
  t.throws(() => read('{"store":"yes"}'), refused('store'))
  t.throws(() => read('{"stream_options":[]}'), refused('stream_options'))
  t.throws(() => read('{"modalities":["text","audio"]}'), refused('modalities'))
  t.equal(read('{"modalities": [ "text" ]}').parameters.get('modalities'), '[ "text" ]')
  for (const key of ['audio', 'functions', 'function_call', 'metadata']) {
    t.throws(() => read(`{"${key}":{}}`), refused(key))
  }
})

void t.test('the lower of two maximums counts', async (t) => {
  t.equal(read('{"max_tokens":7,"max_completion_tokens":5}').maxTokens, 5)
  t.equal(read('{"max_tokens":null}').maxTokens, Infinity)
  t.equal(read('{"max_tokens":1e300}').maxTokens, Number.MAX_SAFE_INTEGER)
  for (const value of ['0', '1.5', '"7"', '-1', '[]']) {
    t.throws(() => read(`{"max_tokens":${value}}`), refused('max_tokens'))
  }
})

void t.test('parameters that only some models know need their permission', async (t) => {
  const { unlisted, parameters } = read('{"top_k":4,"constructor":1,"service_tier":"flex"}')
  t.strictSame(
    unlisted.map(({ name }) => name),
    ['constructor', 'service_tier'],
  )
  t.equal(parameters.get('top_k'), '4')
  const refusal = (...extraParameters: string[]) =>
    refusalFor({ unlisted, addresses: [] }, { extraParameters, remoteMedia: [] })
  t.equal(refusal('constructor', 'service_tier'), undefined)
  t.equal(refusal('*'), undefined)
  t.match(refusal('service_tier'), { code: 'unknown_parameter', param: 'constructor' })
  t.match(refusal('constructor'), { code: 'unknown_parameter', param: 'service_tier' })
})

void t.test('limits of /v1 are limits here, too', async (t) => {
  t.throws(() => read('{"logprobs":-1}'), refused('logprobs'))
  t.throws(() => read('{"n_predict":-1}'), { code: 'unknown_parameter', param: 'n_predict' })
  const param = 'stream_options.Include_Usage'
  t.throws(() => read('{"stream_options":{"include_usage":true,"Include_Usage":false}}'), {
    code: 'unknown_parameter',
    param,
  })
})

void t.test('every parameter of the openai package is decided on', async (t) => {
  const types = readFileSync(
    new URL(
      'completions.d.ts',
      import.meta.resolve('openai/resources/chat/completions/completions'),
    ),
    'utf8',
  )
  const body = types.split('interface ChatCompletionCreateParamsBase {')[1]?.split('\n}')[0] ?? ''
  const names = [...body.matchAll(/^ {4}(\w+)\??:/gm)].flatMap(([, name]) => name ?? [])
  t.ok(names.length > 30)
  t.strictSame(
    names.filter((name) => !ownKeys.has(name)),
    [],
  )
})

void t.test('a huge body is checked for JSON where it goes on', async (t) => {
  const long = 'x'.repeat(1 << 20)
  t.throws(() => read(`{"user":"${long}","seed":maybe}`), { code: 'invalid_json' })
})
