// Customers of chat sessions, who read a stream on at any gateway when they are cut off. A message ends once, for all
// who read it: its stream, its row and its charge say the same.

import { randomUUID } from 'node:crypto'
import type { Transaction } from '../../src/ledger/transaction.ts'
import type { Message } from '../../test/fixtures/session-chat.ts'
import { parseStream } from '../../test/fixtures/sse-grammar.ts'
import type { Frame } from '../../test/fixtures/sse-grammar.ts'
import type { Calling } from './call.ts'
import { chargeOf, mostCounted, mostEstimated } from './chats.ts'
import { Customer, newTrace } from './customer.ts'
import type { Answered, Session } from './customer.ts'
import type { Span } from './risks.ts'

interface Told {
  readonly session: string
  readonly message: string
  readonly trace: string
  readonly frames: readonly Frame[]
  readonly gateway: string
  readonly at: Span
}

/** A message that is sent and read. */
interface Telling {
  readonly session: Session
  readonly sending: Omit<Calling, 'key'>
  readonly from: number
  /** Its id; '' until a gateway has told it. */
  message: string
  /** The one that generates it, most likely. */
  gateway?: string
  readonly frames: Frame[]
  missingSince?: number | undefined
}

/** How long a message may take: its answer, a lease, and the faults on the way. */
const messageMs = 90_000
/** If Redis has lost a message, the gateway that generates it writes it again within this time. */
const missingMs = 20_000

export class Talker extends Customer {
  readonly #told: Told[] = []
  #session: Session | undefined

  async live(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.random(6) === 0) this.#session = undefined
      await this.#tell((this.#session ??= await this.newSession()))
      await this.rest()
    }
  }

  /** Sends a message, and reads its answer to the end, at any gateway. */
  async #tell(session: Session): Promise<void> {
    const { trace, traceparent } = newTrace()
    const content = 'word '.repeat(1 + this.random(50))
    const body = { content, stream: true, max_tokens: 10 + this.random(800) }
    const headers = { 'idempotency-key': randomUUID(), traceparent }
    const from = performance.now()
    const telling: Telling = { session, sending: { body, headers }, from, message: '', frames: [] }
    while (telling.frames.at(-1)?.kind !== 'done' && telling.frames.at(-1)?.kind !== 'error') {
      const called = await this.#goOn(telling)
      if (this.#isLost(telling, called)) return
      if (called.status === 200) this.#take(called, telling)
      else await this.rest()
    }
    const { message, frames, gateway = '' } = telling
    const at = { from, to: performance.now() }
    this.#told.push({ session: session.id, message, trace, frames, gateway, at })
  }

  /** Sends the message again until it has a name, then reads on. */
  async #goOn(telling: Telling): Promise<Answered> {
    const { session, sending, frames } = telling
    const path = `/api/chat/sessions/${session.id}/messages`
    if (telling.message !== '') {
      const cursor = frames.at(-1)?.seq
      const last: Record<string, string> = {}
      if (cursor !== undefined) last['last-event-id'] = `${telling.message}:${cursor}`
      return this.call(`${path}/${telling.message}/stream`, { headers: last })
    }
    const called = await this.call(path, sending)
    const { 'x-message-id': id = '' } = called.headers
    telling.message = String(id)
    telling.gateway = called.gateway
    return called
  }

  /** Whether the message can't be read to its end. */
  #isLost(telling: Telling, { status }: Answered): boolean {
    const { session, message, from, frames } = telling
    const now = performance.now()
    const at = { from, to: now }
    const name = `${session.id}/${message}`
    if (now > from + messageMs) {
      this.breaks(`${name} does not end; ${frames.length} frames came`)
      return true
    }
    if (status === 404 && message === '') {
      this.#session = undefined
      this.misses('sessions', `${name} is gone`, session.made)
      return true
    }
    if (status === 410) {
      this.misses('streams', `${name} can not be read on`, at)
      return true
    }
    if (status === 204) {
      this.misses('ends of streams', `${name}: nothing follows`, at)
      return true
    }
    // Other failures say nothing of the message.
    if (status === 200) telling.missingSince = undefined
    if (status !== 404) return false
    if (now < (telling.missingSince ??= now) + missingMs) return false
    this.misses('messages', `${name} is gone`, at)
    return true
  }

  #take(called: Answered, { message, frames }: Telling): void {
    const isCut = !called.isWhole
    try {
      const read = parseStream(called.bytes, { first: frames.length, message, isCut })
      frames.push(...read.frames)
    } catch (error) {
      this.breaks(`${message}: ${String(error)}`)
    }
  }

  async verify(entries: readonly Transaction[]): Promise<void> {
    for (const told of this.#told) await this.#verifyOne(told, entries)
  }

  async #verifyOne(told: Told, entries: readonly Transaction[]): Promise<void> {
    const { session, message: id, trace, frames, gateway, at } = told
    const path = `/api/chat/sessions/${session}/messages/${id}`
    const row = await this.callUntil([200, 404], path)
    if (row.status === 404) return this.misses('messages', `${id} is gone`, at)
    const message = JSON.parse(row.bytes.toString()) as Message
    const again = await this.callUntil([200, 410], `${path}/stream`)
    // A gateway that writes a forgotten message again has its newest frames only.
    if (again.status === 410) return this.misses('streams', `${id} can not be read again`, at)
    const copy = parseStream(again.bytes, { first: 0, message: id }).frames
    const isDone = copy.at(-1)?.kind === 'done'
    if (isDone !== (message.status === 'completed')) {
      this.breaks(`${id} is ${message.status}, its stream ends by ${copy.at(-1)?.data}`)
    }
    if (isDone && message.content !== copy.map(contentOf).join('')) {
      this.breaks(`${id} has another text than its stream`)
    }
    // While its gateway could not be reached, another one may have ended it, with less.
    if (message.status === 'incomplete') this.incomplete++
    else if (textOf(copy) !== textOf(frames)) this.breaks(`${id} reads differently the second time`)
    const shared = frames.slice(0, copy.length - 1)
    if (textOf(copy.slice(0, -1)) !== textOf(shared)) this.breaks(`${id} has other frames`)
    const own = entries.filter(({ message_id }) => message_id === id)
    const cost = chargeOf(own)
    const { truths, risks } = this.world
    const truth = truths.of(trace).cost
    const isForgotten = cost < (message.cost ?? 0) && risks.mayForgetCharge(gateway, at)
    if (isDone && isForgotten) this.lost.push('charges of messages')
    else if (isDone && cost !== message.cost) {
      this.breaks(`${id} cost ${message.cost}, charged ${cost}`)
    }
    // Without its gateway, a message is charged by its last checkpoint.
    const most = message.status === 'incomplete' ? mostEstimated(truth) : mostCounted(truth)
    if (cost > most) {
      this.breaks(`${id}: the backend made ${truth}, charged ${cost}: ${JSON.stringify(own)}`)
    }
    if (new Set(own.map(({ request_id }) => request_id)).size > 1)
      this.breaks(`${id} charged twice`)
    this.messages++
  }

  messages = 0
  incomplete = 0
}

const textOf = (frames: readonly Frame[]): string => frames.map(({ data }) => data).join('\n')

function contentOf({ data }: Frame): string {
  if (!data.startsWith('{')) return ''
  const { choices } = JSON.parse(data) as {
    readonly choices?: readonly { readonly delta?: { readonly content?: string } }[]
  }
  return choices?.[0]?.delta?.content ?? ''
}
