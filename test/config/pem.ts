import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { formatPath } from '../../src/config/problem.ts'
import { endedCertificates, readPems } from '../../src/config/pem.ts'
import { ReadFiles } from '../../src/config/read-files.ts'
import { certificate } from '../fixtures/certificate.ts'
import { folder, load } from '../fixtures/config/load.ts'

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

t.test('a certificate whose time is over, or soon will be, is a warning', async (t) => {
  const end = Date.parse(new X509Certificate(certificate.cert).validTo)
  const path = ['listen', 'tls', 'cert']
  const files = [{ path, kind: 'certificate file' as const, file: '/cert.pem' }]
  const texts = new Map([['/cert.pem', certificate.cert]])
  const told = (days: number) =>
    endedCertificates(files, texts, end - days * 86_400_000).map(({ message }) => message)
  t.same(told(15), [])
  t.match(told(13.5), [/^the certificate expires on 2126-10-28, within 14 days$/])
  t.match(told(-1), [/^the certificate has expired on 2126-10-28; /])
  const ca = [
    { path: ['redis', 'tls', 'ca'], kind: 'certificate file' as const, file: '/cert.pem' },
  ]
  t.same(endedCertificates(ca, texts, end), [], 'one of several authorities may have ended')
  t.same(endedCertificates(files, new Map(), end), [], 'a file that could not be read')
})

t.test('a certificate whose end cannot be read is no warning, and no exception', async (t) => {
  const der = Buffer.from(new X509Certificate(certificate.cert).raw)
  const end = der.indexOf('21261028')
  der.write('99991399999999Z', end, 'latin1')
  const cert = `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`
  t.match(new X509Certificate(cert).validTo, /Bad time value/)
  const files = [{ path: ['cert'], kind: 'certificate file' as const, file: '/cert.pem' }]
  t.same(endedCertificates(files, new Map([['/cert.pem', cert]])), [])
})

t.test('the warning stands at the key that names the file', async (t) => {
  const tls = { cert: join(folder, 'tls/expired.pem'), key: join(folder, 'tls/key.pem') }
  const yaml = `listen: { port: 0, tls: ${JSON.stringify(tls)} }\nmodels: { m: { targets: [demo] } }\n`
  const loaded = await load(join(t.testdir({ 'gateway.yaml': yaml }), 'gateway.yaml'))
  if ('problems' in loaded) return t.fail(loaded.problems.join('\n'))
  const told = loaded.warnings.map((one) => `${one.line} ${formatPath(one.path)}: ${one.message}`)
  t.match(told, [/^1 listen\.tls\.cert: the certificate has expired on 2026-/])
})
