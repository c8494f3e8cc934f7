// What most cases have the driver do, what is answered to the simplest of it, and what several ask of it.

import assert from 'node:assert/strict'
import type { Json, Run, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import { session, sessionStream, talk } from '../transcript.ts'

export const send: Step = {
  op: 'messages.create',
  session_id: session,
  content: 'Hi',
  report: 'texts',
}
export const chat: Step = {
  op: 'chat.stream',
  body: { model: 'demo', messages: [] },
  report: 'texts',
}
export const list: Step = { op: 'models.list' }
/** To `list`. */
export const models: Answer = { json: { object: 'list', data: [] } }
/** For what comes in time even where two cores have five clients at work. */
export const idle = { idle_timeout_ms: 3000 }
export const mebibyte = 1_048_576

/** Cut behind two of its texts; `answers`: to what is asked then. */
export function resumed(...answers: readonly Answer[]): Pick<Run, 'answers' | 'steps'> {
  return { answers: [sessionStream(talk().slice(0, 2), { end: 'fin' }), ...answers], steps: [send] }
}

/** A transfer's progress: it rises to the file's last byte, and each report has the total, or says that it is not known. */
export function rises(step: Json | undefined, bytes: number, total: number | null = bytes): void {
  const { progress } = (step?.ok ?? { progress: [] }) as { progress: readonly Progress[] }
  assert.ok(progress.length > 0, 'there was progress')
  for (const [i, [at, of]] of progress.entries()) {
    assert.ok(i === 0 || at > (progress[i - 1]?.[0] ?? 0), `${JSON.stringify(progress)}`)
    assert.equal(of, total)
  }
  assert.equal(progress.at(-1)?.[0], bytes)
}

type Progress = readonly [at: number, total: number | null]
