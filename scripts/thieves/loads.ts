// The bodies that thieves send: their cost is in places that a gateway might not count. Each body is made from a random
// source, so that no two rounds are equal.

import { crc32, deflateSync } from 'node:zlib'
import type { Random } from '../../test/fixtures/random.ts'

export type Body = Readonly<Record<string, unknown>>

const vocabulary =
  'the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if'.split(
    ' ',
  )

/** About one token a word. */
export function prose(random: Random, words: number): string {
  return Array.from({ length: words }, () => vocabulary[random(vocabulary.length)]).join(' ')
}

const hello = [{ role: 'user', content: 'Hi' }]

/** What most clients send. */
export const plain = (random: Random, words = 300): Body => ({
  messages: [{ role: 'user', content: prose(random, words) }],
})

/** A document for the model to read, in every place of a body that can have one. */
export const documents = {
  'tools[].function.description': (random: Random, words: number): Body => ({
    messages: hello,
    tools: [{ type: 'function', function: { name: 'f', description: prose(random, words) } }],
  }),
  'tools[] parameter names': (random: Random, words: number): Body => ({
    messages: hello,
    tools: [{ type: 'function', function: { name: 'f', parameters: names(random, words) } }],
  }),
  'response_format schema': (random: Random, words: number): Body => ({
    messages: hello,
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'x', schema: { type: 'object', description: prose(random, words) } },
    },
  }),
  'functions[].description': (random: Random, words: number): Body => ({
    messages: hello,
    functions: [{ name: 'f', description: prose(random, words) }],
  }),
  'tool_calls arguments in the history': (random: Random, words: number): Body => ({
    messages: [
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'f', arguments: prose(random, words) } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'ok' },
      ...hello,
    ],
  }),
  'custom tool input in the history': (random: Random, words: number): Body => ({
    messages: [
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'a', type: 'custom', custom: { name: 'f', input: prose(random, words) } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'ok' },
      ...hello,
    ],
  }),
  'reasoning_content in the history': (random: Random, words: number): Body => ({
    messages: [
      { role: 'assistant', content: 'ok', reasoning_content: prose(random, words) },
      ...hello,
    ],
  }),
} as const

/** The tool definitions that an agent sends. */
export function tools(random: Random, count: number): Body {
  const all = Array.from({ length: count }, (_, i) => ({
    type: 'function',
    function: {
      name: `look_up_${i}`,
      description: prose(random, 30),
      parameters: {
        type: 'object',
        properties: {
          query: { type: 'string', description: prose(random, 8) },
          limit: { type: 'integer', minimum: 1, maximum: 100 },
          order: { type: 'string', enum: ['asc', 'desc'] },
        },
        required: ['query'],
        additionalProperties: false,
      },
    },
  }))
  return { messages: [{ role: 'user', content: prose(random, 200) }], tools: all }
}

/** Many short names, whose punctuation costs as much as their letters. */
function names(random: Random, words: number): object {
  const properties = Array.from({ length: Math.ceil(words / 12) }, (_, i) => [
    `${prose(random, 2).replace(' ', '_')}_${i}`,
    { type: 'string' },
  ])
  return { type: 'object', properties: Object.fromEntries(properties) as object }
}

/** A text that is cheap at the 64 places where a predictable sample looks, and dear everywhere else. */
export function permuted(random: Random, chars: number): Body {
  const stride = chars / 64
  let text = ''
  for (let i = 0; i < 64; i++) {
    text += ' '.repeat(1000)
    for (let filled = 1000; filled < stride; filled++) {
      text += String.fromCharCode(0x4e00 + random(20_000))
    }
  }
  return { messages: [{ role: 'user', content: text }] }
}

/** A text with more tokens than its bytes suggest: rare characters, some of them two or three tokens each. */
export function dense(random: Random, chars: number): Body {
  const signs = Array.from({ length: chars }, () => String.fromCharCode(0x4e00 + random(20_000)))
  return { messages: [{ role: 'user', content: signs.join('') }] }
}

export function images(count: number, side: number): Body {
  const url = `data:image/png;base64,${png(side).toString('base64')}`
  const part = { type: 'image_url', image_url: { url } }
  return { messages: [{ role: 'user', content: Array.from({ length: count }, () => part) }] }
}

/** A complete and valid image: one bit a pixel, all black. */
function png(side: number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(side, 0)
  head.writeUInt32BE(side, 4)
  head[8] = 1
  const rows = Buffer.alloc(side * (Math.ceil(side / 8) + 1))
  const parts = [part('IHDR', head), part('IDAT', deflateSync(rows)), part('IEND', Buffer.alloc(0))]
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...parts])
}

function part(name: string, content: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(name), content])
  const ends = [Buffer.alloc(4), Buffer.alloc(4)] as const
  ends[0].writeUInt32BE(content.length)
  ends[1].writeUInt32BE(crc32(named))
  return Buffer.concat([ends[0], named, ends[1]])
}

/** A voice at 8 kbit/s: few bytes a second. */
export function sound(random: Random, bytes: number): Body {
  const data = Buffer.alloc(bytes, random(256)).toString('base64')
  const part = { type: 'input_audio', input_audio: { data, format: 'mp3' } }
  return { messages: [{ role: 'user', content: [part] }] }
}

/** One query and many documents: the model reads the query again with each document. */
export const ranking = (random: Random, documents: number): Body => ({
  query: prose(random, 2000),
  documents: Array.from({ length: documents }, () => prose(random, 2)),
})
