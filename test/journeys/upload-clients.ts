// Uploads by the libraries that this machine has: OpenAI's package for Node, fetch, curl. Those of other languages are
// tried by `npm run try:uploads`.

import t from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { askFor, cases, problemWith, uploadsYaml } from '../fixtures/uploads/cases.ts'
import type { UploadClient } from '../fixtures/uploads/cases.ts'
import { curlVersion, uploadWithCurl } from '../fixtures/uploads/curl.ts'
import { nodeClients } from '../fixtures/uploads/node-clients.ts'

// In CI, curl must be there: otherwise its test would be left out unnoticed.
const hasCurl = process.env.CI !== undefined || (await curlVersion().catch(() => '')) !== ''
const clients: readonly (readonly [string, UploadClient])[] = [
  ...Object.entries(nodeClients),
  ['curl -F', uploadWithCurl],
]

for (const [client, upload] of clients) {
  const skip = client === 'curl -F' && !hasCurl && 'there is no curl here'
  t.test(`${client}: accepted and served back, or refused with a reason`, { skip }, async (t) => {
    const { own, url, gateway } = await startFiles(t, { yaml: uploadsYaml })
    const to = { url, key: own.key, session: own.session, folder: await tempDir(t) }
    for (const name of Object.keys(cases)) {
      const ask = await askFor(name, to)
      t.equal(problemWith(name, await upload(ask), ask), undefined, name)
    }
    const taken = Object.values(cases).filter(({ refusal }) => !refusal)
    t.equal((await gateway.store.list('files/')).length, taken.length, 'none of the refused')
    t.strictSame(await gateway.store.unfinished('files/'), [])
  })
}
