// What a body can ask for besides words: usage that is switched off (finding 3), parameters that cost or reach (4), and
// addresses that the backend fetches (15).

import type { Random } from '../../../test/fixtures/random.ts'
import { documents } from '../loads.ts'
import { wishes } from '../parameters.ts'
import { stays, streamed } from '../strategy.ts'
import type { Strategy } from '../strategy.ts'

/** JSON that two parsers read in different ways. */
export const usageTricks: Readonly<Record<string, string>> = {
  'another case': '{"include_usage":true,"Include_Usage":false}',
  'a duplicate': '{"include_usage":true,"include_usage":false}',
  'an escape': '{"include_usage":true,"includ\\u0065_usage":false}',
  'a case and an escape': '{"include_usage":true,"INCLUDE\\u005fUSAGE":false}',
  'one key only': '{"Include_Usage":false}',
  'a plain false': '{"include_usage":false}',
  'capitals at the top': '{"include_usage":true},"Stream_Options":{"include_usage":false}',
}

/** The body also has a document, which only the backend's report would count. */
export const usageOff: readonly Strategy[] = Object.entries(usageTricks).flatMap(([way, options]) =>
  (['go', 'end'] as const).map((model) => ({
    name: `usage off by ${way}`,
    item: 3,
    model,
    leaving: stays,
    body(random: Random) {
      const tools = documents['tools[].function.description'](random, 6000)
      const text = JSON.stringify({ model, ...tools, ...streamed })
      return `${text.slice(0, -1)},"stream_options":${options}}`
    },
  })),
)

const hello = { messages: [{ role: 'user', content: 'Hi' }], ...streamed }

const eachParameter = Object.entries(wishes).map(([name, value]): Strategy => {
  const strategy = { name, item: 4, model: 'end', leaving: stays } as const
  const body = () => ({ ...hello, [name]: value })
  // Of finding 4: a prompt of 120,002 tokens for a balance of 400.
  return name === 'chat_template' ? { ...strategy, balance: 400, body } : { ...strategy, body }
})

/** The parameters that sessions let through, too. */
const inSessions = eachParameter
  .filter(({ name }) => name === 'service_tier' || name === 'web_search_options')
  .map((one): Strategy => ({ ...one, mount: 'session' }))

export const parameters: readonly Strategy[] = [...eachParameter, ...inSessions]

const urls = [
  'http://169.254.169.254/latest/meta-data/',
  'file:///etc/passwd',
  'https://thief.example/a.png',
  'HTTP://127.0.0.1:6379/',
  'gopher://127.0.0.1:6379/_INFO',
]

const parts: readonly ((url: string) => { readonly type: string })[] = [
  (url) => ({ type: 'image_url', image_url: { url } }),
  (url) => ({ type: 'image_url', image_url: url }),
  (url) => ({ type: 'video_url', video_url: { url } }),
  (url) => ({ type: 'audio_url', audio_url: { url } }),
  (url) => ({ type: 'input_image', image_url: url }),
  (url) => ({ type: 'file', file: { file_data: url } }),
  (url) => ({ type: 'tomorrow', tomorrow: { href: url } }),
]

export const addresses: readonly Strategy[] = [
  ...urls.map((url) => addressed(url, 0)),
  ...parts.slice(1).map((_, i) => addressed(urls[i % urls.length] ?? '', i + 1)),
]

function addressed(url: string, kind: number): Strategy {
  const part = parts[kind]?.(url)
  return {
    name: `${part?.type}: ${url.slice(0, 24)}`,
    item: 15,
    model: 'end',
    leaving: stays,
    body: () => ({ ...hello, messages: [{ role: 'user', content: [part] }] }),
  }
}
