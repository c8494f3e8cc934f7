// POST …/messages: stores the client's messages together with the hold that pays
// for the answer, reads their files, stores their images, and generates the answer,
// for any number of readers. With Last-Event-ID, the request only reads on (stream.ts).

import type { ClaimWords } from '../../redis/claims.ts'
import type { ChatRequest } from '../../chat/request.ts'
import { GatewayError } from '../../errors.ts'
import { refOf } from '../../exchange.ts'
import type { Answer, Exchange, Route, Run, Serving } from '../../exchange.ts'
import { quotaOf } from '../../accounts/plan.ts'
import type { Quota } from '../../accounts/plan.ts'
import type { FileRow } from '../../files/file-row.ts'
import type { Gateway } from '../../plugin.ts'
import type { Room } from '../../accounts/room.ts'
import { namedIn } from '../../sessions/sending/attachments.ts'
import { prepare, readContext } from '../../sessions/sending/prepare.ts'
import type { Context, ContextReading, Filling, Prepared } from '../../sessions/sending/prepare.ts'
import type {
  Generations,
  GenerationsOptions,
  RunningGeneration,
  Sent,
} from '../../sessions/streams/generations.ts'
import type { SessionPlace } from '../../sessions/library.ts'
import type { Lost } from '../../sessions/streams/lost.ts'
import type { BeginRequest, Owned, StreamRows } from '../../sessions/streams/stream-rows.ts'
import { streamHeaders } from '../../sessions/streams/reader.ts'
import type { Readers } from '../../sessions/streams/reader.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { parseSend } from '../../sessions/sending/parse-send.ts'
import type { Send, SendLimits } from '../../sessions/sending/parse-send.ts'
import { dropFiles, fillFiles, readFiles } from './files.ts'
import { replay } from './replay.ts'
import { idsOf, modelOf, route, shown, userHeader, wantsStream, whenLeft } from './route.ts'
import type { MessagePair } from './route.ts'
import { resuming } from './stream.ts'

export interface SendParts extends Pick<ContextReading, 'scripts' | 'waking'> {
  readonly gateway: Gateway
  readonly room: Room
  readonly rows: StreamRows
  readonly lost: Lost
  readonly generations: Generations
  readonly keeping: GenerationsOptions
  readonly readers: Readers
  readonly streams: Streams
}

/** What an exchange knows of its send before `serve`. */
interface PendingSend {
  readonly wish: Pick<Send, 'stream' | 'onDisconnect'>
  readonly prepared: Omit<Prepared, 'filling' | 'request'>
  /** The request for the backend; replaced by one with files once these are read. */
  readonly current: { request: ChatRequest }
  /** May have megabytes, so it is set to undefined when it is used. */
  filling: Filling | undefined
  /** Images that may be in the store. */
  readonly images: readonly { readonly id: string }[]
  readonly begin: Omit<BeginRequest, 'claim' | keyof Quota>
  /** The rows are stored. */
  isBegun: boolean
  /** True when rows may be stored that no generation will end. */
  needsWithdrawal: boolean
}

export function sendRoute(parts: SendParts): Route {
  const { config, shelf } = parts.gateway
  const limits = { ...config.limits, takesFiles: shelf !== undefined }
  return route('POST', '/:id/messages', {
    maxBytes: limits.jsonMessageBytes,
    metered: true,
    creates: true,
    awaitsFirst: true,
    begin: (x) =>
      x.headers['last-event-id'] ? resuming(parts.streams, x) : sendingOf(parts, x, limits),
    replay: (x, pointer) => replay(parts.streams, x, { pointer, limits }),
  })
}

function sendingOf(parts: SendParts, x: Exchange, limits: SendLimits): Serving {
  let pending: PendingSend | undefined
  return {
    // An invalid body is reported at once, because this needs no answer from Redis.
    identify() {
      const send = parseSend(x.body, limits)
      return readSend(parts, x, send).then((read) => void (pending = read))
    },
    // An answer, or a repeated send, may read for half an hour: it must not keep a body of megabytes.
    answered: () => void (pending = undefined),
    async admit() {
      if (pending) await begin(parts, x, pending)
    },
    async serve(run) {
      if (!pending) throw new TypeError('a send that was not read')
      // If making the hold took more than one round trip to Redis, `admit` has found no hold and has begun nothing.
      if (!pending.isBegun) await begin(parts, x, pending)
      if (!pending.isBegun) throw new GatewayError('ledger_unavailable')
      const request = await requestOf(parts, x, pending)
      const answer = generate(parts, x, { pending, run, request })
      if (!pending.needsWithdrawal) pending = undefined
      return await answer
    },
    done() {
      parts.readers.leave(x)
      return pending?.needsWithdrawal ? withdraw(parts, x, pending) : undefined
    },
  }
}

const noFiles: ReadonlyMap<string, FileRow> = new Map()

async function readSend(parts: SendParts, x: Exchange, send: Send): Promise<PendingSend> {
  const { gateway } = parts
  const { session } = idsOf(x)
  const ref = refOf(x)
  const named = namedIn(send.turns)
  const reading = named.size > 0 ? readFiles(gateway, x, named) : undefined
  // Awaited first, so that a missing session is reported before a missing file.
  const context = await readFree(parts, { ref, session, mayWake: x.proof })
  const files = reading ? await reading : gateway.shelf && noFiles
  const identity = await x.proof
  const model = modelOf(gateway, send.model ?? context.model, identity)
  const hold = x.id.slice('req_'.length)
  const { jsonMessageBytes: inlineBytes } = gateway.config.limits
  const { tokensPerMinute: ofPlan = Infinity } = gateway.ledger.planOf(ref) ?? {}
  const tokensPerMinute = Math.min(ofPlan, identity?.tokensPerMinute ?? Infinity)
  const wanted = { send, context, model, hold, ref, files, inlineBytes, tokensPerMinute }
  const { filling, request, ...prepared } = await prepare(wanted)
  const { draft, stored } = prepared
  const current = { request }
  const { promptTokens, outputPerChoice, choices, isSeenAsItComes } = request
  const fields = { ...request.fields, prompt: send.field }
  const ids = { sessionId: session, messageId: draft.id }
  x.want = {
    model,
    promptTokens,
    outputPerChoice,
    choices,
    isSeenAsItComes,
    fields,
    ...ids,
    countPrompt: (effort) => current.request.countPrompt(effort),
    get mostPrompt() {
      return current.request.mostPrompt
    },
  }
  x.facts.model = model.id
  const owned: Owned = { ref, session, message: draft.id, hold }
  const rows = stored.map((row) => [row.id, JSON.stringify(row)] as const)
  const begin = { ...owned, seen: context.seen, rows, lastsMs: model.timeouts.totalMs }
  const wish = { stream: send.stream, onDisconnect: send.onDisconnect }
  const images = filling?.images.map(({ id }) => ({ id })) ?? []
  return { wish, prepared, current, filling, images, begin, isBegun: false, needsWithdrawal: false }
}

/** Reads the session; when the owner of its active message is gone, ends that message first. */
async function readFree(
  { scripts, waking, lost }: SendParts,
  { ref, session, mayWake }: SessionPlace & Pick<ContextReading, 'mayWake'>,
): Promise<Context> {
  const reading = { scripts, waking, mayWake }
  const context = await readContext(reading, ref, session)
  const { active } = context
  const isFreed = active && (await lost.finish({ ref, session, message: active }))
  return isFreed ? await readContext(reading, ref, session) : context
}

async function begin(parts: SendParts, x: Exchange, pending: PendingSend): Promise<void> {
  const { rows, gateway } = parts
  // Set before the call: when its reply is lost, the rows may still be stored.
  pending.needsWithdrawal = true
  const quota = quotaOf(gateway.config, x)
  const store = (claim?: ClaimWords) => {
    const request = { ...pending.begin, ...quota, ...(claim && { claim }) }
    return parts.room.within(request.ref, () => rows.begin(request))
  }
  // The claim is read only here, after every `identify`: before, another try may have had it.
  const begun = await (x.claim ? x.claim.keep(pointerOf(pending), store) : store())
  pending.needsWithdrawal = begun.word === 'ok'
  switch (begun.word) {
    case 'ok':
      pending.isBegun = true
      return
    case 'no_hold':
      return
    case 'session_busy':
      throw new GatewayError('session_busy', { messageId: begun.message })
    case 'changed':
    case 'older':
      // With a claim, the history was read before the wait for the
      // claim: a repeated send reads the session as it is now.
      if (x.claim) throw new GatewayError('idempotency_in_progress')
      throw new GatewayError('session_busy', {
        message: 'Another message was sent meanwhile, or an answer has ended.',
      })
    case 'claim_lost':
      throw new GatewayError('idempotency_in_progress')
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

function sentOf(x: Exchange, pending: PendingSend): Sent {
  const { begin, prepared } = pending
  const { ref, session, message, hold } = begin
  const ids = prepared.stored.map(({ id }) => id)
  const claim = x.claim?.words(pointerOf(pending))
  return { owned: { ref, session, message, hold }, ids, ...(claim && { claim }) }
}

/** Removes all that a refused send has stored. */
async function withdraw(parts: SendParts, x: Exchange, pending: PendingSend): Promise<void> {
  await parts.generations.withdraw(sentOf(x, pending))
  await dropFiles(parts.gateway, x, pending.images)
}

/** The request with its files. Frees the body and the filling, which are no longer needed. */
async function requestOf(
  { gateway }: SendParts,
  x: Exchange,
  pending: PendingSend,
): Promise<ChatRequest> {
  const { filling, current } = pending
  if (!filling) return current.request
  pending.filling = undefined
  x.forgetBody()
  current.request = await fillFiles(gateway, x, filling)
  return current.request
}

interface Generating {
  readonly pending: PendingSend
  readonly run: Run
  readonly request: ChatRequest
}

async function generate(
  parts: SendParts,
  x: Exchange,
  { pending, run, request }: Generating,
): Promise<Answer> {
  const { generations, keeping, readers, streams } = parts
  const { draft, stored } = pending.prepared
  const { targets, config } = parts.gateway
  const sent = sentOf(x, pending)
  const { owned: place } = sent
  const options = { run, request, limits: config.limits, targets }
  const generation = generations.start(x, { ...sent, draft, options, keeping })
  pending.needsWithdrawal = false
  x.work = endOf(generation, parts, { x, images: pending.images }).catch(() => undefined)
  const isStream = wantsStream(pending.wish, x)
  x.forgetBody()
  if (pending.wish.onDisconnect === 'cancel') whenLeft(x, generation.cancel)
  const refusal = await generation.opened
  if (refusal) {
    await x.work
    return refusal
  }
  const pair = { place, user: stored.at(-2)?.id ?? '' }
  x.facts.stream = isStream
  if (!isStream) return await whole(streams, generation, pair)
  return {
    status: 200,
    headers: { ...streamHeaders(place), ...userHeader(pair) },
    async stream(out) {
      const { recording: source, done } = generation
      await readers.write(out, x, { place, source, seq: 0, paid: done })
      await done
    },
  }
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
  pair: MessagePair,
): Promise<Answer> {
  const own = await done
  if (!own) throw new GatewayError('upstream_error')
  // When another gateway has ended the message, its row counts.
  return shown(recording.isUnwritable ? await streams.look(pair.place) : own, pair)
}
