import t from 'tap'
import { estimatePrompt } from '../../../src/tokens/estimate.ts'
import { imageUrl } from '../../fixtures/images.ts'
import { promptOf } from '../../fixtures/prompt.ts'
import { inlineBytes, tokensOf } from '../../../src/files/file-reference.ts'
import type { FileReference } from '../../../src/files/file-reference.ts'
import { fill } from '../../../src/sessions/sending/attachments.ts'
import { HistoryBuilder, composeBody } from '../../../src/sessions/sending/history.ts'
import type { HistoryOptions } from '../../../src/sessions/sending/history.ts'
import type { NewMessage, StoredMessage } from '../../../src/sessions/message.ts'
import { seeded } from '../../fixtures/random.ts'
import { rowOf } from '../../fixtures/stream.ts'

const model = {
  accepts: ['text', 'image'],
  bytesPerToken: 4,
  imageTokens: 1500,
  contextWindow: 100_000,
  remoteMedia: [] as readonly string[],
}
const options: HistoryOptions = {
  fresh: [{ role: 'user', content: 'now' }],
  instructions: null,
  model,
  outputTokens: 1000,
  parameters: new Map(),
  inlineBytes: 20 * 1024 * 1024,
  takesFiles: true,
}

const stored = (message: Partial<StoredMessage>) =>
  rowOf({ role: 'user', status: 'completed', ...message })
const user = (content: StoredMessage['content']) => stored({ content })
const answer = (content: string | null, more: Partial<StoredMessage> = {}) =>
  stored({ role: 'assistant', content, reasoning: 'hm', ...more })
const tool = (id: string, content = 'done') => stored({ role: 'tool', content, tool_call_id: id })
const call = (id: string) => ({
  id,
  type: 'function' as const,
  function: { name: 'f', arguments: '{}' },
})
const calling = (...ids: string[]) => answer(null, { tool_calls: ids.map(call) })
const result = (id: string): NewMessage => ({ role: 'tool', content: 'done', tool_call_id: id })

/** The history of all these stored messages, oldest first. */
function selectHistory(messages: readonly StoredMessage[], given: HistoryOptions) {
  const builder = new HistoryBuilder(given)
  for (const message of messages.toReversed()) if (builder.wantsMore) builder.add(message)
  const history = builder.build()
  return { ...history, messages: history.messages.map((draft) => fill(draft, shownFile)) }
}

const shownFile = ({ file_id, kind }: FileReference) => ({ type: 'shown', file_id, kind })

const select = (messages: readonly StoredMessage[], more: Partial<HistoryOptions> = {}) =>
  selectHistory(messages, { ...options, ...more }).messages.map(
    (text) => JSON.parse(text) as Record<string, unknown>,
  )
/** Each message as a word: its text, or the call that it makes or answers. */
const words = (messages: readonly StoredMessage[], more: Partial<HistoryOptions> = {}) =>
  select(messages, more)
    .map(({ content, tool_calls, tool_call_id }) => {
      const calls = (tool_calls as { id: string }[] | undefined)?.map(({ id }) => id)
      if (calls) return `${String(content ?? '')}(${calls.join()})`
      return tool_call_id === undefined ? content : `=${String(tool_call_id)}`
    })
    .join(' ')

void t.test('a backend gets the instructions, what was said, and what is said now', async (t) => {
  const messages = [
    stored({ content: 'Hi', name: 'Ann' }),
    answer('Hello', { tool_calls: [call('a')] }),
    tool('a'),
    answer('So'),
  ]
  t.strictSame(select(messages, { instructions: 'Be nice.' }), [
    { role: 'system', content: 'Be nice.' },
    { role: 'user', content: 'Hi', name: 'Ann' },
    { role: 'assistant', content: 'Hello', tool_calls: [call('a')] },
    { role: 'tool', content: 'done', tool_call_id: 'a' },
    { role: 'assistant', content: 'So' },
    { role: 'user', content: 'now' },
  ])
  t.strictSame(select([], { instructions: '' }), [{ role: 'user', content: 'now' }])
})

void t.test('the partial text of an answer is seen, whatever became of it', async (t) => {
  for (const status of ['cancelled', 'failed', 'incomplete', 'completed'] as const) {
    t.equal(words([user('q'), answer('par', { status })]), 'q par now')
  }
})

void t.test('an answer without text drops out with its question', async (t) => {
  for (const status of ['cancelled', 'failed', 'incomplete', 'completed'] as const) {
    for (const content of ['', null]) {
      const messages = [
        user('q1'),
        answer('a1'),
        user('q2'),
        user('q3'),
        answer(content, { status }),
      ]
      t.equal(words(messages), 'q1 a1 now')
      t.equal(words([...messages, user('q4'), answer('a4')]), 'q1 a1 q4 a4 now')
    }
  }
  const running = answer('par', { status: 'in_progress', tool_calls: [call('a')] })
  t.equal(words([user('q1'), answer('a1'), user('q2'), running]), 'q1 a1 now')
})

void t.test('a call without its result drops out', async (t) => {
  t.equal(words([user('q'), calling('a')]), 'now')
  t.equal(words([user('q'), answer('I look', { tool_calls: [call('a')] })]), 'q I look now')
  t.equal(words([user('q'), calling('a', 'b'), tool('b'), answer('so')]), 'q (b) =b so now')
  // With the call, everything that depends on it is dropped, up to an answer that stands by itself.
  const steps = [user('q'), calling('a'), tool('a'), calling('b')]
  t.equal(words(steps), 'now')
  t.equal(words([user('p'), answer('r'), ...steps]), 'p r now')
  // A result without a call is not sent.
  t.equal(words([user('q'), answer('r'), tool('x'), answer('s')]), 'q r s now')
  t.equal(words([user('q'), calling('a'), tool('a'), tool('a'), answer('s')]), 'q (a) =a s now')
})

void t.test('results go to the call that waits for them', async (t) => {
  const messages = [user('q'), calling('a', 'b')]
  t.equal(words(messages, { fresh: [result('b'), result('a')] }), 'q (a,b) =b =a')
  t.equal(words(messages, { fresh: [result('a'), { role: 'user', content: 'u' }] }), 'q (a) =a u')
  // The earlier try failed: the call waits again.
  const failed = [...messages, tool('a', 'bad'), tool('b'), answer('', { status: 'failed' })]
  t.equal(words(failed, { fresh: [result('a')] }), 'q (a) =a')
})

void t.test('a result that no call waits for is refused with its path', async (t) => {
  const invalid = (param: string) => ({ code: 'invalid_parameter', param })
  const first = invalid('messages[0].tool_call_id')
  t.throws(() => words([], { fresh: [result('a')] }), first)
  t.throws(() => words([user('q'), answer('r')], { fresh: [result('a')] }), first)
  t.throws(() => words([user('q'), calling('b')], { fresh: [result('a')] }), first)
  const answered = [user('q'), calling('a'), tool('a'), answer('r')]
  t.throws(() => words(answered, { fresh: [result('a')] }), first)
  t.throws(
    () => words([user('q'), calling('a')], { fresh: [result('a'), result('a')] }),
    invalid('messages[1].tool_call_id'),
  )
  t.throws(
    () =>
      words([user('q'), calling('a')], { fresh: [{ role: 'user', content: 'x' }, result('a')] }),
    invalid('messages[1].tool_call_id'),
  )
})

const long = 'x'.repeat(4000) // A little more than 1,000 tokens.

void t.test('the oldest turns are dropped whole where the window ends', async (t) => {
  const turns = [1, 2, 3, 4].flatMap((n) => [
    user(`q${n}`),
    calling('a'),
    tool('a', long),
    answer(`a${n}`),
  ])
  const window = (contextWindow: number, outputTokens = 500) =>
    words(turns, { model: { ...model, contextWindow }, outputTokens })
  t.equal(window(3000), 'q3 (a) =a a3 q4 (a) =a a4 now')
  t.equal(window(2000), 'q4 (a) =a a4 now')
  t.equal(window(1000), 'now')
  // At least half of the window is for the prompt.
  t.equal(window(3000, 1e9), 'q4 (a) =a a4 now')
})

void t.test('the newest count of a backend corrects the estimates', async (t) => {
  const usage = { completion_tokens: 1, total_tokens: 1, estimated: false }
  const sent = (prompt_tokens: number, guessed: number, estimated = false) => {
    const counted = answer('s', { usage: { ...usage, prompt_tokens, estimated }, guessed })
    const turns = [user('p'), answer('r'), user(long), counted]
    return select(turns, { model: { ...model, contextWindow: 1300 }, outputTokens: 100 }).length
  }
  t.equal(sent(1000, 1000), 5)
  t.equal(sent(1200, 1000), 1)
  t.equal(sent(1000, 2000), 5, 'they stay careful')
  t.equal(sent(324, 100), 5, 'a short prompt says little')
  t.equal(sent(1200, 1000, true), 5, 'our own count says nothing')
})

void t.test('questions that were sent together stay together', async (t) => {
  const turns = [user('p'), answer('r'), user(long), user('q'), answer('s')]
  const narrow = { model: { ...model, contextWindow: 1100 }, outputTokens: 100 }
  t.equal(words(turns, narrow), 'now')
  t.match(words(turns, { ...narrow, model: { ...model, contextWindow: 1300 } }), /^p r x+ q s now$/)
})

void t.test('what is said now always goes, with the turn that it answers', async (t) => {
  const tiny = { model: { ...model, contextWindow: 100 }, instructions: 'i' }
  t.equal(words([user('q'), answer('r')], { ...tiny, fresh: [user(long)] }), `i ${long}`)
  const turns = [user('p'), answer('r'), user(long), calling('a')]
  t.equal(words(turns, { ...tiny, fresh: [result('a')] }), `i ${long} (a) =a`)
  const both: NewMessage[] = [result('a'), { role: 'user', content: 'u' }]
  t.equal(words(turns, { ...tiny, fresh: both }), `i ${long} (a) =a u`)
  const seeds = [user(long), answer('a'), user('b')]
  t.equal(words([], { ...tiny, fresh: seeds }), `i ${long} a b`)
})

void t.test('instructions and parameters take part of the window', async (t) => {
  const turns = [user('q'), answer(long)]
  const narrow = { model: { ...model, contextWindow: 1200 }, outputTokens: 100 }
  t.match(words(turns, narrow), /^q x+ now$/)
  t.notMatch(words(turns, { ...narrow, instructions: 'y'.repeat(400) }), /^q/)
  const parameters = new Map([['tools', `["${'y'.repeat(400)}"]`]])
  t.equal(words(turns, { ...narrow, parameters }), 'now')
})

const image = (kib: number) => ({
  type: 'image_url' as const,
  image_url: { url: imageUrl('png', 1000, 1000, kib * 768) },
})

void t.test('an image counts as an image, not by its bytes', async (t) => {
  const seen = [user([{ type: 'text', text: 'look' }, image(1000)]), answer('nice')]
  const { messages, promptTokens } = selectHistory(seen, { ...options, instructions: 'i' })
  const body = composeBody({ model: 'm', messages, parameters: options.parameters })
  const guess = estimatePrompt(promptOf(body.toString()), model)
  t.ok(Math.abs(promptTokens - guess.tokens) <= 3)
  t.ok(promptTokens > 1500 && promptTokens < 1700)
})

void t.test('a model without images is told where an image was', async (t) => {
  const blind = { ...model, accepts: ['text'] }
  const seen = [user([{ type: 'text', text: 'look' }, image(1)]), answer('nice')]
  t.strictSame(select(seen, { model: blind })[0]?.content, [
    { type: 'text', text: 'look' },
    { type: 'text', text: '[image]' },
  ])
  t.equal(select(seen).length, 3)
})

let files = 0
const file = (kind: FileReference['kind'], bytes: number) => ({
  type: 'file' as const,
  file: {
    file_id: `file_${++files}`,
    kind,
    bytes,
    content_type: 'x/y',
    filename: `${kind}.x`,
  },
})
const shownIn = (messages: readonly StoredMessage[], more: Partial<HistoryOptions> = {}) =>
  select(messages, more).flatMap(({ content }) =>
    Array.isArray(content)
      ? content.map((part: { type: string; text?: string; file_id?: string }) =>
          part.type === 'shown' ? part.file_id : part.text,
        )
      : [],
  )

void t.test('a message with files is a draft until they are filled in, in its order', async (t) => {
  const one = file('image', 9)
  const asked = user([{ type: 'text', text: 'look' }, one, image(1)])
  const builder = new HistoryBuilder({ ...options, instructions: 'i' })
  builder.add(answer('nice'))
  builder.add(asked)
  const { messages } = builder.build()
  t.strictSame(
    messages.map((draft) => typeof draft),
    ['string', 'object', 'string', 'string'],
  )
  const text = fill(messages[1] ?? '', () => ({ type: 'there' }))
  t.match(text, /^\{"role":"user","content":\[\{"type":"text","text":"look"\},\{"type":"there"\},/)
})

void t.test('files count by their kind, not by the bytes of their form', async (t) => {
  const kinds = ['image', 'text', 'audio', 'file'] as const
  const every = { ...model, accepts: kinds }
  for (const kind of kinds) {
    const one = file(kind, 100_000)
    const guess = (content: StoredMessage['content']) =>
      selectHistory([user(content), answer('a')], { ...options, model: every }).promptTokens
    const words = kind === 'image' ? '[image]' : `[file: ${kind}.x]`
    const without = guess([{ type: 'text', text: words }])
    t.equal(guess([one]), without + tokensOf(one.file, model), kind)
  }
})

void t.test('newer files go first; what has no room is told by its name', async (t) => {
  const [old, large, newer] = [file('image', 300), file('image', 900), file('file', 300)]
  const turns = [user([old]), answer('1'), user([large]), answer('2'), user([newer]), answer('3')]
  const room = inlineBytes({ kind: 'file', bytes: 300 })
  const all = { model: { ...model, accepts: ['text', 'image', 'file'] } }
  const seen = (inline: number) => shownIn(turns, { ...all, inlineBytes: inline })
  const ids = [old, large, newer].map((one) => one.file.file_id)
  t.strictSame(seen(5 * room), ids)
  t.strictSame(seen(5 * room - 1), ['[image]', ids[1], ids[2]])
  t.strictSame(seen(2 * room), [ids[0], '[image]', ids[2]], 'a smaller one may still fit')
  t.strictSame(seen(room - 1), ['[image]', '[image]', '[file: file.x]'])
  const fresh = [{ role: 'user' as const, content: [file('image', 300)] }]
  t.equal(
    shownIn(turns, { ...all, fresh, inlineBytes: room }).at(-1),
    fresh[0]?.content[0]?.file.file_id,
  )
  t.throws(() => shownIn(turns, { ...all, fresh, inlineBytes: room - 1 }), {
    code: 'body_too_large',
    status: 413,
  })
})

void t.test('images that lie in rows take their room, too', async (t) => {
  const url = image(1).image_url.url.length
  const turns = [user([image(1)]), answer('1'), user([image(1)]), answer('2')]
  t.strictSame(shownIn(turns, { inlineBytes: 2 * url }), [undefined, undefined])
  t.strictSame(shownIn(turns, { inlineBytes: 2 * url - 1 }), ['[image]', undefined])
})

void t.test('a kind that the model does not take, or no store: told by its name', async (t) => {
  const turns = [user([file('image', 9), file('text', 9), file('audio', 9)]), answer('a')]
  const names = ['[image]', '[file: text.x]', '[file: audio.x]']
  t.strictSame(shownIn(turns, { takesFiles: false }), names)
  const blind = { model: { ...model, accepts: ['text'] } }
  t.strictSame(shownIn(turns, blind), [names[0], shownIn(turns)[1], names[2]])
})

void t.test('no more than a hundred older files are read', async (t) => {
  const many = Array.from({ length: 60 }, () => file('image', 9))
  const turns = [user(many), answer('a'), user(many), answer('b')]
  const window = { ...model, contextWindow: 1_000_000 }
  const seen = shownIn(turns, { model: window })
  t.equal(seen.filter((one) => one !== '[image]').length, 100)
  t.equal(seen.slice(60).includes('[image]'), false, 'the newest')
})

void t.test('no older messages are read when they can not fit any more', async (t) => {
  const builder = new HistoryBuilder({ ...options, model: { ...model, contextWindow: 3000 } })
  let fed = 0
  for (; builder.wantsMore; fed++) builder.add(fed % 2 ? user('q') : answer(long))
  t.equal(fed, 3)
  const { messages } = builder.build()
  builder.add(user('never'))
  t.strictSame([messages.length, builder.build().messages.length], [3, 3])
})

void t.test('a backend never gets a call without result or an empty answer', async (t) => {
  const random = seeded(20261121)
  const ids = ['a', 'b']
  const kinds = [
    () => user('q'),
    () => answer(random(3) ? 'r' : null),
    () => calling(...ids.slice(0, 1 + random(2))),
    () => tool(ids[random(2)] ?? 'a'),
    () => answer('r', { status: 'in_progress' }),
  ]
  let seen = 0
  for (let i = 0; i < 3000; i++) {
    const messages = [
      user('q'),
      ...Array.from({ length: random(14) }, () => kinds[random(5)]?.() ?? user('q')),
    ]
    const contextWindow = 60 + random(600)
    const sent = select(messages, { model: { ...model, contextWindow }, outputTokens: 20 })
    const last = sent.pop()
    let waiting = new Set<unknown>()
    const isBad = sent.some(({ role, content, tool_calls, tool_call_id }) => {
      if (role === 'tool') return !waiting.delete(tool_call_id)
      if (waiting.size > 0) return true
      waiting = new Set((tool_calls as { id: string }[] | undefined)?.map(({ id }) => id))
      return role === 'assistant' && content === null && waiting.size === 0
    })
    if (isBad || waiting.size > 0 || last?.content !== 'now') {
      return t.fail(JSON.stringify({ messages, sent }))
    }
    seen += sent.length
  }
  t.ok(seen > 3000, `${seen} messages`)
})
