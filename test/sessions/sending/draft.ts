import t from 'tap'
import type { FileReference } from '../../../src/files/file-reference.ts'
import { composeBody, fill, filesIn, filesOf } from '../../../src/sessions/sending/draft.ts'

const file: FileReference = {
  file_id: 'file_1',
  kind: 'image',
  content_type: 'image/png',
  bytes: 9,
  filename: 'a.png',
}
const content = [
  { type: 'text', text: 'look' },
  { type: 'file', file },
] as const
const draft = { message: { role: 'user', content }, content }

t.test('the files of a draft are known before they are loaded', async (t) => {
  t.strictSame(filesIn(draft), [file])
  t.strictSame([filesIn('{}'), filesOf(null), filesOf('x')], [[], [], []])
})

t.test('a file is put in its place, whatever its text looks like', async (t) => {
  const text = fill(draft, () => ({ type: 'there', text: '$& $1 $\' "content":0' }))
  t.strictSame(JSON.parse(text), {
    role: 'user',
    content: [
      { type: 'text', text: 'look' },
      { type: 'there', text: '$& $1 $\' "content":0' },
    ],
  })
  t.equal(
    fill('as it is', () => ({ type: 'never' })),
    'as it is',
  )
})

t.test('a body has its parameters as they were written', async (t) => {
  const parameters = new Map([['seed', '12345678901234567890']])
  const body = composeBody({ model: 'm"', messages: ['{"role":"user"}'], parameters })
  t.equal(
    String(body),
    '{"model":"m\\"","stream":true,"messages":[{"role":"user"}],"seed":12345678901234567890}',
  )
})
