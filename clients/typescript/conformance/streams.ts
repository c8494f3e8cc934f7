// Describes a stream for the runner: chunks as texts, as JSON or as a digest, and what was done while it was read.

import { createHash } from 'node:crypto'
import type { ChatStream, Chunk, MessageStream } from '../src/tollgate.ts'
import { errorOf } from './errors.ts'
import type { Json, Show, Step } from './steps.ts'

interface Telling {
  readonly step: Step
  readonly show: Show
  readonly open: Promise<ChatStream | MessageStream | null>
  /** Done while the stream is read. */
  act(step: Step, stream: ChatStream | MessageStream): Promise<Json>
}

export async function tellStream({ step, show, open, act }: Telling): Promise<Json> {
  const report = reportOf(step.report)
  const during: Json[] = []
  const stream = await open
  if (stream === null) return { ok: null }
  const state = () => ({
    chunks: report.told(),
    message_id: 'messageId' in stream ? stream.messageId : null,
    last_event_id: 'lastEventId' in stream ? stream.lastEventId : null,
    ...(step.during && { during }),
  })
  try {
    let count = 0
    if (step.leave_after !== 0) {
      for await (const chunk of stream) {
        report.take(chunk)
        count++
        for (const { after, step: inner } of step.during ?? []) {
          if (after === count) during.push(await act(inner, stream))
        }
        if (count === step.leave_after) break
      }
    }
    show(stream)
  } catch (error) {
    show(error)
    return { error: errorOf(error), ...state(), ...(await finalOf(stream, step, show)) }
  }
  const final = await finalOf(stream, step, show)
  return { ok: { ...state(), ...final } }
}

async function finalOf(stream: ChatStream | MessageStream, step: Step, show: Show): Promise<Json> {
  if (step.final !== true || !('finalMessage' in stream)) return {}
  try {
    return { final: await stream.finalMessage() }
  } catch (error) {
    show(error)
    return { final_error: errorOf(error) }
  }
}

interface Report {
  take(chunk: Chunk): void
  told(): unknown
}

function reportOf(how: Step['report'] = 'digest'): Report {
  if (how !== 'digest') {
    const all: unknown[] = []
    return {
      take: (chunk) =>
        void all.push(how === 'texts' ? chunk.text : JSON.parse(JSON.stringify(chunk))),
      told: () => all,
    }
  }
  const hash = createHash('sha256')
  let count = 0
  let bytes = 0
  return {
    take(chunk) {
      count++
      bytes += Buffer.byteLength(chunk.text)
      hash.update(chunk.text)
    },
    told: () => ({ count, bytes, sha256: hash.copy().digest('hex') }),
  }
}
