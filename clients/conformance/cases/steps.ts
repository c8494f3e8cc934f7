// What most cases have the driver do, and what is answered to the simplest of it.

import type { Step } from '../case.ts'
import type { Answer } from '../server.ts'
import { session } from '../transcript.ts'

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
export const mebibyte = 1_048_576
