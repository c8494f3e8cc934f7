// One process begins to read an answer, and another one continues where it stopped: it needs only two ids.

import { Tollgate } from 'tollgate-gateway'

const gate = new Tollgate()
const session = await gate.sessions.create()

const reader = await gate.messages.create(session.id, { content: 'Tell me a long story.' })
let left = 10
for await (const chunk of reader) {
  process.stdout.write(chunk.text)
  if (--left === 0) break
}
const { messageId, lastEventId } = reader
console.log(`\n… left at ${lastEventId}; the answer goes on being generated …`)

const other = await gate.messages.resume(session.id, messageId ?? '', { lastEventId })
for await (const chunk of other) process.stdout.write(chunk.text)
console.log(`\n${(await other.finalMessage()).status}`)
