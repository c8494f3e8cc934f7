// The steps that most cases give the driver, the answers to the simplest of them, and questions that several cases
// share.

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
/** The answer to `list`. */
export const models: Answer = { json: { object: 'list', data: [] } }
/** A limit that holds even when two cores run five clients. */
export const idle = { idle_timeout_ms: 3000 }
export const mebibyte = 1_048_576

/** Cut after two of its texts; `answers` has the answers to the requests that follow. */
export function resumed(...answers: readonly Answer[]): Pick<Run, 'answers' | 'steps'> {
  return { answers: [sessionStream(talk().slice(0, 2), { end: 'fin' }), ...answers], steps: [send] }
}

/** A transfer's progress: rises to the file's last byte, and each report has the total, or says that it is unknown. */
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
