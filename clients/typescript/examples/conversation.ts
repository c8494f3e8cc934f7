// A conversation of two turns in one session, and what it cost. Ctrl-C stops the model, not only this program.

import { Tollgate } from 'tollgate-gateway'

const gate = new Tollgate()
const session = await gate.sessions.create({ instructions: 'Answer in one sentence.' })
for (const content of ['My name is Ada.', 'What is my name?']) {
  const stream = await gate.messages.create(session.id, { content })
  const stop = () => void stream.cancel()
  process.once('SIGINT', stop)
  console.log(`> ${content}`)
  for await (const chunk of stream) process.stdout.write(chunk.text)
  process.off('SIGINT', stop)
  const { status, usage, cost } = await stream.finalMessage()
  console.log(`\n(${status}: ${usage?.total_tokens} tokens, ${cost} of the balance)`)
}
await gate.sessions.delete(session.id)
