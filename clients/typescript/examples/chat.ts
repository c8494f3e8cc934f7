// A question and its answer, printed as it is generated. Nothing is kept: `node examples/chat.ts "Why is the sky
// blue?"`

import { Tollgate } from 'tollgate-gateway'

const gate = new Tollgate()
const [model] = (await gate.models.list()).data
const content = process.argv[2] ?? 'Why is the sky blue?'
const messages = [{ role: 'user', content }]
const stream = await gate.chat.completions.create({
  model: model?.id ?? '',
  messages,
  stream: true,
})
for await (const chunk of stream) process.stdout.write(chunk.text)
process.stdout.write('\n')
