// Sends a file to a session with its progress, and reads it back: `node examples/file.ts photo.png`

import { createHash } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { basename } from 'node:path'
import { Tollgate } from 'tollgate-gateway'

const path = process.argv[2] ?? 'package.json'
const gate = new Tollgate()
const session = await gate.sessions.create()
const file = await gate.files.upload(await openAsBlob(path), {
  sessionId: session.id,
  filename: basename(path),
  onProgress: (bytes, total = bytes) => console.log(`${Math.round((100 * bytes) / total)} %`),
})
console.log(file.id, file.content_type, file.bytes)

const hash = createHash('sha256')
for await (const piece of await gate.files.content(file.id)) hash.update(piece)
console.log(hash.digest('hex') === file.sha256 ? 'it came back whole' : 'it came back damaged')
await gate.files.delete(file.id)
