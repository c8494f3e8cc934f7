// Reads the certificate and key files that a configuration names, and parses them: so a wrong file is a problem with a
// line in gateway.yaml now, and not a failed handshake later.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { SchemaFinding } from './explain.ts'
import type { Path } from './problem.ts'
import type { ReadFiles } from './read-files.ts'
import type { FileAt } from './shape.ts'
import { whyUnreadable } from './substitute.ts'

export interface Pems {
  /** By absolute path. */
  readonly texts: ReadonlyMap<string, string>
  /** Certificates whose time is over, or soon will be. */
  readonly warnings: readonly PemWarning[]
  readonly findings: readonly SchemaFinding[]
}

export interface PemWarning {
  readonly path: Path
  readonly message: string
}

const dayMs = 86_400_000
/** Long enough to get another certificate by hand; a program that renews them does it earlier. */
const soonMs = 14 * dayMs

export async function readPems(files: readonly FileAt[], read: ReadFiles): Promise<Pems> {
  const texts = new Map<string, string>()
  const findings: SchemaFinding[] = []
  for (const at of files) {
    const { text, fault } = await readPem(at, read)
    if (fault !== undefined) findings.push({ path: at.path, message: fault, atKey: false })
    else texts.set(at.file, text)
  }
  return {
    texts,
    warnings: endedCertificates(files, texts),
    findings: [...findings, ...checkPairs(files, texts)],
  }
}

/** Looks at the first certificate of each `cert`, which is the gateway's own. A `ca` may have several, of which one that has expired does no harm. */
export function endedCertificates(
  files: readonly FileAt[],
  texts: ReadonlyMap<string, string>,
  now = Date.now(),
): readonly PemWarning[] {
  return files.flatMap(({ path, file }) => {
    const text = path.at(-1) === 'cert' ? texts.get(file) : undefined
    if (text === undefined) return []
    const end = new X509Certificate(text).validToDate.getTime()
    // An end that OpenSSL cannot read is NaN.
    if (!(end <= now + soonMs)) return []
    const day = new Date(end).toISOString().slice(0, 10)
    const message =
      end <= now
        ? `the certificate has expired on ${day}; whoever checks it refuses the connection`
        : `the certificate expires on ${day}, within ${Math.ceil((end - now) / dayMs)} days`
    return [{ path, message }]
  })
}

async function readPem(
  at: FileAt,
  read: ReadFiles,
): Promise<{ readonly text: string; readonly fault?: string }> {
  let text: string
  try {
    text = (await read.read(at.file)).toString()
  } catch (error) {
    return { text: '', fault: `${at.kind} cannot be read: ${whyUnreadable(error)}` }
  }
  try {
    if (at.kind === 'certificate file') new X509Certificate(text)
    else createPrivateKey(text)
    return { text }
  } catch {
    const what =
      at.kind === 'certificate file' ? 'PEM certificate' : 'PEM private key without a password'
    return { text, fault: `the file holds no ${what}` }
  }
}

/** If one block names a key and a certificate, the key must be that certificate's. */
function checkPairs(
  files: readonly FileAt[],
  texts: ReadonlyMap<string, string>,
): readonly SchemaFinding[] {
  return files.flatMap(({ path, kind, file }) => {
    const key = kind === 'private key file' ? texts.get(file) : undefined
    const beside = files.find(
      (other) => other.path.at(-1) === 'cert' && sameBlock(other.path, path),
    )
    const cert = beside && texts.get(beside.file)
    if (key === undefined || cert === undefined) return []
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return []
    return [{ path, message: 'is not the key of the certificate in cert', atKey: false }]
  })
}

function sameBlock(a: Path, b: Path): boolean {
  return JSON.stringify(a.slice(0, -1)) === JSON.stringify(b.slice(0, -1))
}
