// Files that a browser could run are served with exactly the headers that prevent it. `npm run try:uploads` shows in a
// browser that they do.

import t from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { activeFiles } from '../fixtures/uploads/active.ts'

const inert = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  'cross-origin-resource-policy': 'same-site',
  'cache-control': 'private, no-cache',
}

t.test('no file is served with a type that a browser would run', async (t) => {
  const { own } = await startFiles(t)
  for (const [name, { content, plainType, type, isInline = false }] of Object.entries(
    activeFiles,
  )) {
    const { id } = await own.make({ content, name, type: plainType })
    const shown = isInline ? 'inline' : 'attachment'
    for (const [query, disposition] of [
      ['', 'attachment'],
      ['?disposition=attachment', 'attachment'],
      ['?disposition=inline', shown],
    ] as const) {
      const ways = [
        ['GET', {}, 200],
        ['HEAD', {}, 200],
        ['GET', { range: 'bytes=1-' }, 206],
      ] as const
      for (const [method, headers, status] of ways) {
        const answer = await own.call(`${method} /${id}${query}`, headers)
        const what = `${method} ${name}${query} ${status}`
        await answer.arrayBuffer()
        t.equal(answer.status, status, what)
        const expected = {
          ...inert,
          'content-type': type,
          'content-disposition': `${disposition}; filename="${name}"; filename*=UTF-8''${name}`,
        }
        for (const [header, value] of Object.entries(expected)) {
          t.equal(answer.headers.get(header), value, `${header} of ${what}`)
        }
      }
    }
  }
})
