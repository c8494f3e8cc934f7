import t from 'tap'
import type { FileReference } from '../../../src/files/file-reference.ts'
import type { FileRow } from '../../../src/files/file-row.ts'
import { attach, fill, filesIn, filesOf } from '../../../src/sessions/sending/attachments.ts'
import { namedIn } from '../../../src/sessions/sending/attachments.ts'
import { composeBody } from '../../../src/sessions/sending/history.ts'
import type { NewMessage, SentPart } from '../../../src/sessions/message.ts'
import { fileRow } from '../../fixtures/file-rows.ts'

const session = `sess_${'0'.repeat(32)}`
const gif = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='
const png = `data:image/jpeg;base64,${Buffer.from('\x89PNG\r\n\x1a\n!', 'latin1').toString('base64')}`
const image = (url: string, detail?: string): SentPart => ({
  type: 'image_url',
  image_url: { url, ...(detail !== undefined && { detail }) },
})
const named = (file_id: string, at = 'content[0].file.file_id'): SentPart => ({
  type: 'file',
  file: { file_id },
  at,
})
const user = (...content: SentPart[]): NewMessage<SentPart> => ({ role: 'user', content })
const rowsOf = (...rows: FileRow[]) => new Map(rows.map((row) => [row.id, row]))
const all = { accepts: ['text', 'image', 'audio', 'file'] }
const given = { model: all, files: rowsOf() }

t.test('files are named once, where they come first', async (t) => {
  const turns = [user(named('a', '0'), named('b', '1')), user(named('a', '2')), user(image(gif))]
  t.strictSame(
    [...namedIn([...turns, { role: 'assistant', content: 'x' }])],
    [
      ['a', '0'],
      ['b', '1'],
    ],
  )
})

t.test('a name becomes a reference with what the row says', async (t) => {
  const row = fileRow({ session, contentType: 'application/pdf' })
  const { turns, images } = attach([user({ type: 'text', text: 'see' }, named(row.id))], {
    ...given,
    files: rowsOf(row),
  })
  const { id: file_id, bytes, contentType: content_type, filename } = row
  t.strictSame(turns[0]?.content, [
    { type: 'text', text: 'see' },
    { type: 'file', file: { file_id, kind: 'file', bytes, content_type, filename } },
  ])
  t.strictSame(images, [])
})

t.test('an image becomes a file that is still to be stored, by what its bytes are', async (t) => {
  const { turns, images } = attach([user(image(gif)), user(image(png, 'low'))], given)
  t.match(images, [
    { id: /^file_[0-9a-f]{32}$/, filename: 'image-1.gif', contentType: 'image/gif' },
    { id: /^file_[0-9a-f]{32}$/, filename: 'image-2.png', contentType: 'image/png' },
  ])
  t.strictSame(
    images.map(({ base64 }) => base64),
    [gif, png].map((url) => url.split(',')[1]),
  )
  const [one, two] = images.map(({ id: file_id, contentType: content_type, filename }) => {
    return { file_id, kind: 'image', content_type, filename }
  })
  t.strictSame(
    turns.map(({ content }) => content),
    [
      [{ type: 'file', file: { ...one, bytes: 14 } }],
      [{ type: 'file', file: { ...two, bytes: 9, detail: 'low' } }],
    ],
  )
  t.notMatch(JSON.stringify(turns), 'base64')
})

t.test('without a store, images stay as they were sent', async (t) => {
  const sent = [user(image(gif)), { role: 'assistant' as const, content: 'x' }]
  t.strictSame(attach(sent, { ...given, files: undefined }), { turns: sent, images: [] })
})

t.test('a kind that the model does not take is refused with its path', async (t) => {
  const kinds = [
    ['image/png', 'image'],
    ['text/plain', 'text'],
    ['audio/mpeg', 'audio'],
    ['application/pdf', 'file'],
  ] as const
  for (const [contentType, kind] of kinds) {
    const row = fileRow({ session, contentType })
    const accepts = all.accepts.filter((one) => one !== kind)
    const refused = () =>
      attach([user(named(row.id))], { ...given, model: { accepts }, files: rowsOf(row) })
    t.throws(refused, { code: 'unsupported_attachment', param: 'content[0].file.file_id' })
    t.throws(refused, { message: new RegExp(`${row.id} is of .*only ${accepts.join(', ')}`) })
  }
  t.throws(() => attach([user(named('file_1'))], given), { code: 'file_not_found' })
})

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

t.test('the files of a draft are known before they are read', async (t) => {
  t.strictSame(filesIn(draft), [file])
  t.strictSame([filesIn('{}'), filesOf(null), filesOf('x')], [[], [], []])
})

t.test('a file is put where it stood, whatever its text looks like', async (t) => {
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
  const parameters = new Map([
    ['seed', '12345678901234567890'],
    ['stop', '["\\u00e9" ,"报"]'],
  ])
  const body = composeBody({ model: 'm"', messages: ['{"role":"user"}'], parameters })
  t.equal(
    String(body),
    '{"model":"m\\"","stream":true,"messages":[{"role":"user"}],"seed":12345678901234567890,"stop":["\\u00e9" ,"报"]}',
  )
})
