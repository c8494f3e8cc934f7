// Runs schemathesis against a gateway with a scripted backend, a Redis and files of its own. What it checks of each
// answer: no 5xx, a status and a code that the document has for this operation, the document's schema, type and headers;
// and that no route works without its key or cookie. hooks.py gives it both, ids that exist, and a model that does.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chat } from '../../test/fixtures/backend-model.ts'
import { startBackend } from '../../test/fixtures/backend.ts'
import type { Call } from '../../test/fixtures/backend.ts'
import { adminToken, spawnGateway } from '../../test/fixtures/gateway.ts'
import { teardownOf } from '../../test/fixtures/teardown.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { endpointNames } from '../../src/config/endpoints.ts'
import { ensurePython } from '../model-server/python.ts'

export interface FuzzOptions {
  readonly seed: number
  /** How long it goes on; without it, each operation gets `examples` requests of random data. */
  readonly seconds?: number
  readonly examples?: number
  /** Ids of operations; by default all. */
  readonly only?: readonly string[]
  readonly onLine?: (line: string) => void
}

export interface Fuzzed {
  readonly isGood: boolean
  readonly lines: readonly string[]
  /** `GET /v1/models 200` of all requests that came, with the route's own path. */
  readonly seen: ReadonlySet<string>
}

const here = import.meta.dirname

export async function fuzz(
  undo: AsyncDisposableStack,
  { seed, seconds, examples = 30, only = [], onLine }: FuzzOptions,
): Promise<Fuzzed> {
  const t = teardownOf(undo)
  const wanted = await readFile(join(here, 'requirements.txt'), 'utf8')
  const python = await ensurePython(wanted.trim().split('\n'))
  const backend = await startBackend(t, answer)
  const gateway = await spawnGateway(t, { yaml: yamlOf(backend.url) })
  const { key } = await gateway.account(1e12)
  const bound = seconds ? ['--max-time', String(seconds)] : ['--max-examples', String(examples)]
  const options = `--checks ${checks.join()} --generation-database :memory: --continue-on-failure`
  const quiet = '--no-color --warnings off --request-timeout 20'
  const words = [
    '-c',
    'from schemathesis.cli import schemathesis; schemathesis()',
    'run',
    `${gateway.url}/openapi.json`,
    '--seed',
    String(seed),
    ...bound,
    ...only.flatMap((id) => ['--include-operation-id', id]),
    ...`${options} ${quiet}`.split(' '),
  ]
  const child = spawn(python, words, {
    cwd: await tempDir(t),
    env: {
      ...process.env,
      PYTHONPATH: here,
      SCHEMATHESIS_HOOKS: 'hooks',
      TOLLGATE_URL: gateway.url,
      TOLLGATE_KEY: key,
      TOLLGATE_ADMIN_URL: gateway.adminUrl,
      TOLLGATE_ADMIN_TOKEN: adminToken,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  undo.defer(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const lines: string[] = []
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
    onLine?.(line)
  }
  const [code] = await ended
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  return { isGood: code === 0, lines, seen: seenIn(metrics) }
}

const say = chat({ chunks: 2 })

/** A backend that understands everything: what it made of a strange prompt would be its own failure, not the gateway's. */
function answer(call: Call): void | Promise<void> {
  const { model, stream, stream_options, n } = call.json
  const messages = [{ role: 'user', content: 'Hi' }]
  return say({
    ...call,
    json: { model, stream, stream_options, n, messages, prompt: 'Hi', input: 'Hi' },
  })
}

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'ignored_auth',
  'unsupported_method',
  'allow_header_conformance',
]

/** Without limits that would refuse most of thousands of requests a minute. */
const yamlOf = (url: string) => `
models:
  m:
    aliases: [nick]
    endpoints: [${endpointNames.join(', ')}]
    accepts: [text, image, file]
    targets: [{ url: '${url}' }]
plans:
  default: { requests_per_minute: 100000000, tokens_per_minute: 100000000000, concurrency: 1000, storage: 10GiB }
plugins:
  auth: { failures_per_minute_per_ip: 10000000, refusals_per_minute: 10000000 }
  files: { max_bytes: 64KiB }
  account:
    failures_per_minute_per_ip: 10000000
    max_keys: 1000
    max_logins: 1000
    # A provider that nobody can reach: what a log-in there answers then is what the document says.
    oidc: { issuer: 'http://127.0.0.1:1', client_id: fuzz }
log: { level: error }
`

function seenIn(metrics: string): ReadonlySet<string> {
  const rows = metrics.matchAll(
    /^tollgate_http_requests_total\{route="([^"]*)",method="(\w+)",status="(\d+)"/gm,
  )
  return new Set([...rows].map(([, route, method, status]) => `${method} ${route} ${status}`))
}
