import { join } from 'node:path'
import t from 'tap'
import { readPems } from '../../src/config/pem.ts'
import { ReadFiles } from '../../src/config/read-files.ts'
import { folder } from '../fixtures/config/load.ts'

const at = (name: string, kind: 'cert' | 'key', block = 'tls') => ({
  path: [block, kind],
  kind: kind === 'cert' ? ('certificate file' as const) : ('private key file' as const),
  file: join(folder, 'tls', name),
})

const messages = async (...files: Parameters<typeof readPems>[0]) =>
  (await readPems(files, new ReadFiles())).findings.map(
    ({ path, message }) => `${path.join('.')}: ${message}`,
  )

t.test('a certificate and its key are read', async (t) => {
  const { texts, findings } = await readPems(
    [at('cert.pem', 'cert'), at('key.pem', 'key')],
    new ReadFiles(),
  )
  t.same(findings, [])
  t.match(texts.get(join(folder, 'tls/cert.pem')), /^-----BEGIN CERTIFICATE/)
})

t.test("another certificate's key is refused, but only in the same block", async (t) => {
  t.match(await messages(at('cert.pem', 'cert'), at('other-key.pem', 'key')), [
    /^tls\.key: is not the key/,
  ])
  t.same(await messages(at('cert.pem', 'cert'), at('other-key.pem', 'key', 'redis')), [])
})

t.test('a file that is missing, or has other content, is reported', async (t) => {
  t.match(await messages(at('none.pem', 'cert')), [/there is no such file/])
  t.match(await messages(at('key.pem', 'cert')), [/no PEM certificate/])
  t.match(await messages(at('cert.pem', 'key')), [/no PEM private key/])
  t.notMatch(
    (await messages(at('none.pem', 'cert'))).join(''),
    folder,
    'not with where it would be',
  )
})
