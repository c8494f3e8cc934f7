// How the backend answers: streamed at a steady pace, or whole when all is generated; in the shape and with the usage
// report of its mode. Each word is one token, and is counted when it is generated, not when the client reads it.

import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Call, Json } from './backend.ts'
import { readsOn } from './models.ts'
import { inFlightTokens, runawayTokens } from './truth.ts'

const words =
  'time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number'.split(
    ' ',
  )

/** Number of steps in which hidden tokens are generated. */
const thoughts = 20
/** Tokens in a chunk, and ms between two chunks; `user: "gap:25"` asks for another gap. */
const chunkTokens = 10
const gapMs = 3
const gapAsked = /^gap:(\d+)$/
/** Padding of each chunk, for models with huge answers. */
const paddingBytes = 32 * 1024
/** Time to leave: between the last content and the finish, and between the finish and the usage. */
const tailMs = 40
/** How long the backend waits for the gateway to hang up on what nobody wants, before it goes on. */
const hangUpMs = 10_000
/** A mark on the last content, since a thief who knows the bound can tell that it is the last. */
export const lastMark = 'fp_last'

export async function stream(call: Call): Promise<void> {
  const { res, mode, account, choices } = call
  const output = call.output - hiddenIn(call)
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.flushHeaders()
  if (call.isChat) send(call, { index: 0, delta: { role: 'assistant', content: '' } })
  const gap = Number(gapAsked.exec(String(call.body['user']))?.[1] ?? gapMs)
  if (mode.pace === 'silent') await once(res, 'close')
  const isHere = await think(call)
  let hangingUp: Promise<unknown> | undefined
  for (let done = 0; isHere && done < output;) {
    const tokens = Math.min(chunkTokens, output - done)
    done += tokens
    await wait(call, gap)
    // A gateway that gets no CPU must not look like one that reads on for nothing.
    if (!res.destroyed && isUnwanted(call, tokens * choices)) {
      await (hangingUp ??= Promise.race([
        once(res, 'close'),
        pause(hangUpMs, undefined, { ref: false }),
      ]))
    }
    if (res.destroyed) return
    const text = say(done, tokens)
    const isFirst = done === tokens
    for (let index = 0; index < choices; index++) {
      account.addGenerated(tokens)
      send(call, { index, ...(isFirst ? worded(call, text) : shaped(call, text)) }, done >= output)
    }
  }
  await wait(call, tailMs)
  for (let index = 0; index < choices; index++) {
    send(call, { index, ...(call.isChat ? { delta: {} } : { text: '' }), finish_reason: 'stop' })
  }
  await wait(call, tailMs)
  if (reports(call)) res.write(frame(chunk(call, { choices: [], usage: usageOf(call) })))
  res.end(mode.usage === 'never' ? '' : 'data: [DONE]\n\n')
}

export async function whole(call: Call): Promise<void> {
  const { res, mode, account, choices, tries } = call
  const output = call.output - hiddenIn(call)
  if (!(await think(call))) return
  const texts = Array.from({ length: choices }, () => '')
  for (let done = 0; done < output;) {
    const tokens = Math.min(chunkTokens, output - done)
    done += tokens
    await wait(call, 1)
    if (res.destroyed) return
    for (let index = 0; index < choices; index++) {
      account.addGenerated(tokens * tries)
      texts[index] += say(done, tokens)
    }
  }
  account.isMade()
  await wait(call, 2 * tailMs)
  const padding = mode.answerBytes ? { padding: 'x'.repeat(mode.answerBytes) } : {}
  const all = texts.map((text, index) => ({ index, ...spoken(call, text), finish_reason: 'stop' }))
  const usage = mode.usage === 'never' ? {} : { usage: usageOf(call) }
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ ...chunk(call, { choices: all, ...usage }), ...padding }))
}

async function wait({ mode }: Call, ms: number): Promise<void> {
  if (mode.pace !== 'quick') await pause(ms)
}

/** Whether the gateway should have hung up before so many further tokens: all that is judged is whether it does. */
function isUnwanted({ mode, account }: Call, tokens: number): boolean {
  if (mode.boundless && account.completion + tokens > runawayTokens) return true
  return account.hasLeft && !readsOn(mode) && account.afterLeave + tokens > inFlightTokens
}

/** The bound includes hidden tokens. */
function hiddenIn({ mode, output }: Call): number {
  return Math.min(mode.hiddenTokens ?? 0, thoughts * Math.floor((0.9 * output) / thoughts))
}

/** Generates the hidden tokens. Resolves with false when the reader has left meanwhile. */
async function think(call: Call): Promise<boolean> {
  const { res, account } = call
  const hidden = hiddenIn(call)
  for (let i = 0; i < thoughts && hidden > 0; i++) {
    account.addGenerated(hidden / thoughts)
    await pause(gapMs)
    if (res.destroyed) return false
  }
  return !res.destroyed
}

function say(at: number, tokens: number): string {
  return Array.from({ length: tokens }, (_, i) => ` ${words[(at + i) % words.length]}`).join('')
}

function shaped({ mode, isChat }: Call, text: string): Json {
  if (!isChat) return { text }
  switch (mode.shape) {
    case 'tool':
      return delta({ tool_calls: [{ index: 0, function: { arguments: text } }] })
    case 'custom':
      return delta({ tool_calls: [{ index: 0, type: 'custom', custom: { input: text } }] })
    case 'audio':
      return delta({ audio: { id: 'a', data: soundOf(text) } })
    case 'ids':
      return { ...delta({}), token_ids: idsOf(text) }
    case 'unknown':
      return delta({ thinking_blocks: [{ type: 'thinking', thinking: text }] })
    default:
      return delta({ content: text })
  }
}

const delta = (fields: Json): Json => ({ delta: fields })

/** Whatever the shape, a stream begins with plain words. */
function worded({ isChat }: Call, text: string): Json {
  return isChat ? delta({ content: text }) : { text }
}

/** The same content as in a stream, in one piece. */
function spoken(call: Call, text: string): Json {
  const { delta: message, ...rest } = shaped(call, text)
  return call.isChat
    ? { message: { role: 'assistant', content: null, ...Object(message) }, ...rest }
    : rest
}

/** Sound of 50 ms a token, at 38 kbit/s. */
const soundOf = (text: string): string =>
  Buffer.alloc(tokensIn(text) * 240, text).toString('base64')

const idsOf = (text: string): readonly number[] =>
  Array.from({ length: tokensIn(text) }, (_, i) => 1000 + i)

const tokensIn = (text: string): number => text.split(' ').length - 1

function send(call: Call, choice: Json, isLast = false): void {
  const early = call.mode.usage === 'each' || asksEach(call)
  const usage = reports(call) && early ? { usage: usageOf(call) } : {}
  const mark = { system_fingerprint: isLast ? lastMark : 'fp' }
  const padding = call.mode.answerBytes ? { padding: 'x'.repeat(paddingBytes) } : {}
  const full = { finish_reason: null, ...choice }
  call.res.write(frame(chunk(call, { ...mark, choices: [full], ...usage, ...padding })))
}

function asksEach({ body, mode }: Call): boolean {
  return mode.usage === 'asked' && option(body, 'continuous_usage_stats')
}

/** Whether the answer has usage; a stream has it only if the request asks for it. */
function reports({ mode, body }: Call): boolean {
  return mode.usage !== 'never' && option(body, 'include_usage')
}

function option(body: Json, name: string): boolean {
  const options = body['stream_options']
  return typeof options === 'object' && options !== null && (options as Json)[name] === true
}

function usageOf({ account, mode }: Call): Json {
  const { completion } = account
  const prompt = account.prompt + (mode.liesTokens ?? 0)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  }
}

function chunk({ body, isChat }: Call, fields: Json): Json {
  const object = isChat ? 'chat.completion.chunk' : 'text_completion'
  return { id: 'c', object, created: 1, model: body['model'], ...fields }
}

const frame = (value: Json): string => `data: ${JSON.stringify(value)}\n\n`
