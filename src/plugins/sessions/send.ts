// POST …/messages: stores the client's messages together with the hold that pays
// for the answer, reads their files, stores their images, and generates the answer,
// for any number of readers. With Last-Event-ID, the request only reads on.

import type { Redis } from 'ioredis'
import type { ChatRequest } from '../../chat/request.ts'
import { GatewayError } from '../../errors.ts'
import { refOf } from '../../exchange.ts'
import type { Answer, ClaimWords, Exchange, Route, Run, Serving } from '../../exchange.ts'
import { quotaOf } from '../../accounts/quota.ts'
import type { Quota } from '../../accounts/quota.ts'
import type { Gateway } from '../../plugin.ts'
import type { Room } from '../../accounts/room.ts'
import { readContext } from '../../sessions/sending/context.ts'
import type { Context } from '../../sessions/sending/context.ts'
import type { Generations, RunningGeneration, Sent } from '../../sessions/streams/generations.ts'
import type { SessionScripts } from '../../sessions/library.ts'
import type { Lost } from '../../sessions/streams/lost.ts'
import { prepare } from '../../sessions/sending/prepare.ts'
import type { Filling, Prepared } from '../../sessions/sending/prepare.ts'
import type { BeginRequest, Owned, StreamRows } from '../../sessions/streams/stream-rows.ts'
import { streamHeaders } from '../../sessions/streams/streams.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { parseSend } from '../../sessions/sending/turns.ts'
import type { Send, SendLimits } from '../../sessions/sending/turns.ts'
import { dropFiles, fillFiles, readFiles } from './files.ts'
import { replay, shown, userHeader, wantsStream } from './replay.ts'
import type { SentPlace } from './replay.ts'
import { idsOf, modelOf, route } from './route.ts'
import { resume } from './stream.ts'

export interface SendParts {
  readonly gateway: Gateway
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly room: Room
  readonly rows: StreamRows
  readonly lost: Lost
  readonly generations: Generations
  readonly streams: Streams
}

/** The request for the backend; replaced by one with files once these are read. */
interface Asking {
  request: ChatRequest
}

/** What an exchange knows of its send before `serve`. */
interface PendingSend {
  readonly wish: Pick<Send, 'stream' | 'onDisconnect'>
  readonly prepared: Omit<Prepared, 'filling' | 'request'>
  readonly asked: Asking
  /** May have megabytes, so it is set to undefined when it is used. */
  filling: Filling | undefined
  /** Images that may be in the store. */
  readonly images: readonly { readonly id: string }[]
  readonly begin: Omit<BeginRequest, 'claim' | keyof Quota>
  isBegun: boolean
  /** True when rows may be stored that no generation will end. */
  mayBeLeft: boolean
}

export function sendRoute(parts: SendParts): Route {
  const { config, shelf } = parts.gateway
  const limits = { ...config.limits, takesFiles: shelf !== undefined }
  return route('POST', '/:id/messages', {
    maxBytes: limits.jsonMessageBytes,
    metered: true,
    creates: true,
    awaitsFirst: true,
    begin: (x) => sendingOf(parts, x, limits),
    replay: (x, pointer) => replay(parts.streams, x, { pointer, limits }),
  })
}

function sendingOf(parts: SendParts, x: Exchange, limits: SendLimits): Serving {
  let sending: PendingSend | undefined
  return {
    // An invalid body is reported at once, because this needs no answer from Redis.
    identify() {
      if (x.headers['last-event-id']) return undefined
      const send = parseSend(x.body, limits)
      return readSend(parts, x, send).then((read) => void (sending = read))
    },
    async admit() {
      if (sending) await begin(parts, x, sending)
    },
    async serve(run) {
      if (!sending) return await resume(parts.streams, x)
      // Not begun when `admit` found no hold: the hold took more than one flight.
      if (!sending.isBegun) await begin(parts, x, sending)
      if (!sending.isBegun) throw new GatewayError('ledger_unavailable')
      const request = await requestOf(parts, x, sending)
      const answer = generate(parts, x, { sending, run, request })
      // Frees the send: a body may have megabytes, and an answer may take half an hour.
      if (!sending.mayBeLeft) sending = undefined
      return await answer
    },
    done() {
      parts.streams.leave(x)
      return sending?.mayBeLeft ? withdraw(parts, x, sending) : undefined
    },
  }
}

async function readSend(parts: SendParts, x: Exchange, send: Send): Promise<PendingSend> {
  const { gateway } = parts
  const { session } = idsOf(x)
  const ref = refOf(x)
  const reading = readFiles(gateway, x, send)
  // Awaited first, so that a missing session is reported before a missing file.
  const context = await readFree(parts, ref, session)
  const files = await reading
  const identity = await x.proof
  const model = modelOf(gateway, send.model ?? context.model, identity)
  const hold = x.id.slice('req_'.length)
  const { jsonMessageBytes: inlineBytes } = gateway.config.limits
  const { tokensPerMinute: ofPlan = Infinity } = gateway.ledger.planOf(ref) ?? {}
  const tokensPerMinute = Math.min(ofPlan, identity?.tokensPerMinute ?? Infinity)
  const wanted = { send, context, model, hold, ref, files, inlineBytes, tokensPerMinute }
  const { filling, request, ...prepared } = await prepare(wanted)
  const { draft, stored } = prepared
  const asked: Asking = { request }
  const { promptTokens, outputPerChoice: outputTokens, choices } = request
  const fields = { ...request.fields, prompt: send.field }
  const ids = { sessionId: session, messageId: draft.id }
  x.want = {
    model,
    promptTokens,
    outputTokens,
    choices,
    fields,
    ...ids,
    countPrompt: () => asked.request.countPrompt(),
    mostPrompt: () => asked.request.mostPrompt,
  }
  x.facts.model = model.id
  const owned: Owned = { ref, session, message: draft.id, hold }
  const rows = stored.map((row) => [row.id, JSON.stringify(row)] as const)
  const begin = { ...owned, seen: context.last, rows, lastsMs: model.timeouts.totalMs }
  const wish = { stream: send.stream, onDisconnect: send.onDisconnect }
  const images = filling?.images.map(({ id }) => ({ id })) ?? []
  return { wish, prepared, asked, filling, images, begin, isBegun: false, mayBeLeft: false }
}

/** Reads the session; when the owner of its active message is gone, ends that message first. */
async function readFree(
  { scripts, lost }: SendParts,
  ref: string,
  session: string,
): Promise<Context> {
  const context = await readContext(scripts, ref, session)
  const { active } = context
  const isFreed = active && (await lost.finish({ ref, session, message: active }))
  return isFreed ? await readContext(scripts, ref, session) : context
}

async function begin(parts: SendParts, x: Exchange, sending: PendingSend): Promise<void> {
  const { rows, gateway } = parts
  // Set before the call: when its reply is lost, the rows may still be stored.
  sending.mayBeLeft = true
  const quota = quotaOf(gateway.config, x)
  const store = (claim?: ClaimWords) => {
    const request = { ...sending.begin, ...quota, ...(claim && { claim }) }
    return parts.room.within(request.ref, () => rows.begin(request))
  }
  // The claim is read only here, after every `identify`: before, another try may have had it.
  const begun = await (x.claim ? x.claim.keep(pointerOf(sending), store) : store())
  sending.mayBeLeft = begun.word === 'ok'
  switch (begun.word) {
    case 'ok':
      sending.isBegun = true
      return
    case 'no_hold':
      return
    case 'session_busy':
      throw new GatewayError('session_busy', { messageId: begun.message })
    case 'changed':
    case 'older':
      // With a claim, the history was read before the wait for the
      // claim: a repeated send reads the session as it is now.
      if (x.claim) throw new GatewayError('idempotency_in_progress', { retryAfterMs: 1000 })
      throw new GatewayError('session_busy', {
        message:
          'Another message was sent to the session at the same time. Read it, then send yours again.',
      })
    case 'claim_lost':
      throw new GatewayError('idempotency_in_progress', { retryAfterMs: 1000 })
    case 'full':
      throw new GatewayError('storage_quota_exceeded', {
        message: 'The session is full. Continue in a new session.',
      })
    case 'storage_quota_exceeded':
    case 'session_not_found':
      throw new GatewayError(begun.word)
  }
}

function pointerOf({ prepared: { draft, stored } }: PendingSend): string {
  return `${draft.id} ${stored.at(-2)?.id}`
}

function sentOf(x: Exchange, sending: PendingSend): Sent {
  const { begin, prepared } = sending
  const { ref, session, message, hold } = begin
  const ids = prepared.stored.map(({ id }) => id)
  const claim = x.claim?.words(pointerOf(sending))
  return { owned: { ref, session, message, hold }, ids, ...(claim && { claim }) }
}

/** Removes all that a refused send has stored. */
async function withdraw(parts: SendParts, x: Exchange, sending: PendingSend): Promise<void> {
  await parts.generations.withdraw(sentOf(x, sending))
  await dropFiles(parts.gateway, x, sending.images)
}

/** The request with its files. Frees the body and the filling, which are no longer needed. */
async function requestOf(
  { gateway }: SendParts,
  x: Exchange,
  sending: PendingSend,
): Promise<ChatRequest> {
  const { filling, asked } = sending
  if (!filling) return asked.request
  sending.filling = undefined
  x.forgetBody()
  asked.request = await fillFiles(gateway, x, filling)
  return asked.request
}

interface Generating {
  readonly sending: PendingSend
  readonly run: Run
  readonly request: ChatRequest
}

async function generate(
  parts: SendParts,
  x: Exchange,
  { sending, run, request }: Generating,
): Promise<Answer> {
  const { gateway, generations, streams } = parts
  const { draft, stored } = sending.prepared
  const { limits } = gateway.config
  const sent = sentOf(x, sending)
  const { owned: place } = sent
  const running = generations.start(x, {
    ...sent,
    draft,
    options: { run, request, limits },
  })
  sending.mayBeLeft = false
  x.work = endOf(running, parts, { x, images: sending.images }).catch(() => undefined)
  const isStream = wantsStream(sending.wish, x)
  x.forgetBody()
  if (sending.wish.onDisconnect === 'cancel') whenLeft(x, running.cancel)
  const refusal = await running.opened
  if (refusal) {
    await x.work
    return refusal
  }
  const asked = { place, user: stored.at(-2)?.id ?? '' }
  x.facts.stream = isStream
  if (!isStream) return await whole(streams, running, asked)
  return {
    status: 200,
    headers: { ...streamHeaders(place), ...userHeader(asked) },
    async stream(out) {
      const { recording: source, done } = running
      await streams.write(out, x, { place, source, seq: 0, paid: done })
      await done
    },
  }
}

function whenLeft({ left }: Exchange, then: () => void): void {
  left.addEventListener('abort', then)
  if (left.aborted) then()
}

/** Removes the images when the message was withdrawn. */
async function endOf(
  { done }: RunningGeneration,
  { gateway }: SendParts,
  { x, images }: { readonly x: Exchange; readonly images: PendingSend['images'] },
): Promise<void> {
  if (!(await done)) await dropFiles(gateway, x, images)
}

async function whole(
  streams: Streams,
  { recording, done }: RunningGeneration,
  asked: SentPlace,
): Promise<Answer> {
  const own = await done
  if (!own) throw new GatewayError('upstream_error')
  // When another gateway has ended the message, its row counts.
  return shown(recording.isLost ? await streams.look(asked.place) : own, asked)
}
