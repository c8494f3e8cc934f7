// The commands' client of the admin API, over node:http (fetch takes 30 ms to load). When the gateway breaks off or
// fails, a request is repeated, except a download that has begun; a POST always with the same Idempotency-Key.

import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf, messageOf, unreached } from '../errors.ts'
import { parsed } from '../http/json/field.ts'
import { formatProblem } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import { CliError, exit, plural, writeTo } from './command.ts'
import type { Admin, Out } from './command.ts'

export interface AdminOptions {
  /** The URL of the admin listener, without `/admin`. */
  readonly url: URL
  readonly token: string
  /** The Idempotency-Key of the command's only POST; by default a fresh one. */
  readonly idempotencyKey?: string
  /** Gets one line when an answer takes more than a second. */
  readonly progress?: Out
  readonly signal?: AbortSignal
}

/** A path whose values are percent-encoded, so that a name may have slashes. */
export function path(texts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: texts }, ...values.map(encodeURIComponent))
}

export function createAdmin(options: AdminOptions): Admin {
  const call = async <T>(request: Request) => (await repeat(options, request)) as T
  const { idempotencyKey = randomUUID() } = options
  return {
    get: (path, { timeoutMs } = {}) => call({ method: 'GET', path, timeoutMs }),
    post: (path, body) => call({ method: 'POST', path, body, idempotencyKey }),
    patch: (path, body) => call({ method: 'PATCH', path, body }),
    delete: (path, { timeoutMs } = {}) => call({ method: 'DELETE', path, timeoutMs }),
    download: (path, out, { timeoutMs = downloadTimeoutMs } = {}) =>
      call({ method: 'GET', path, timeoutMs, out }),
  }
}

/** How long a download may send nothing: a filter may find nothing for long. */
const downloadTimeoutMs = 600_000

interface Request {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: object
  readonly idempotencyKey?: string
  readonly timeoutMs?: number
  /** Where an answer that succeeds goes. */
  readonly out?: Out
  /** Called when an answer begins. */
  readonly onAnswer?: () => void
}

const pausesMs = [100, 300, 1000]

async function repeat(options: AdminOptions, request: Request): Promise<unknown> {
  const waiting = setTimeout(() => {
    options.progress?.write(`Waiting for ${options.url.origin} …\n`)
  }, 1000)
  try {
    let mayHaveRun = false
    for (let i = 0; ; i++) {
      const onAnswer = () => clearTimeout(waiting)
      const outcome = await attempt(options, { ...request, onAnswer })
      if ('value' in outcome) return outcome.value
      mayHaveRun ||= !outcome.wasNotSent && !outcome.wasRefused
      const isFirstRefused = i === 0 && outcome.wasNotSent === true
      const pauseMs = pausesMs[i]
      if (pauseMs === undefined || !outcome.mayHelpAgain || isFirstRefused) {
        throw explain(outcome, request, mayHaveRun)
      }
      await sleep(pauseMs, undefined, { signal: options.signal })
    }
  } finally {
    clearTimeout(waiting)
  }
}

type CallOutcome = { readonly value: unknown } | Failure

interface Failure {
  readonly exitCode: number
  readonly message: string
  readonly mayHelpAgain: boolean
  /** There was no connection, so nothing was sent. */
  readonly wasNotSent?: boolean
  /** The gateway refused, so nothing was changed. */
  readonly wasRefused?: boolean
}

/** If one of the attempts had no answer, it is not known whether money was moved; with the same key, trying again is safe. */
function explain({ exitCode, message }: Failure, request: Request, mayHaveRun: boolean): CliError {
  const isUnclear = request.method === 'POST' && mayHaveRun
  const hint = `It is not known whether this was done. Repeat the command with --idempotency-key ${request.idempotencyKey}: then it is done only once.`
  return new CliError(exitCode, isUnclear ? `${message}\n${hint}` : message)
}

const defaultTimeoutMs = 30_000

async function attempt(options: AdminOptions, request: Request): Promise<CallOutcome> {
  const { url } = options
  try {
    const { status, text } = await send(options, request)
    return judge(url, status, text)
  } catch (error) {
    const code = codeOf(error)
    const why = code || messageOf(error)
    // ETIMEDOUT may also come when the request was sent.
    const wasNotSent = unreached.has(code) && code !== 'ETIMEDOUT'
    const message = wasNotSent
      ? `No gateway answers at ${url.origin} (${why}). Is it running? If it is at another address, give --admin URL.`
      : error instanceof Unanswered
        ? `The gateway at ${url.origin} gives ${why}: does its process hang?`
        : `The gateway at ${url.origin} broke off the connection (${why}).`
    if (error instanceof BrokenDownload) {
      const message = `The gateway at ${url.origin} broke off in the middle (${why}). The output is not complete.`
      return { exitCode: exit.unreachable, message, mayHelpAgain: false }
    }
    const mayHelpAgain = options.signal?.aborted !== true
    return { exitCode: exit.unreachable, message, mayHelpAgain, wasNotSent }
  }
}

async function send({ url, token, signal }: AdminOptions, request: Request) {
  const { method, path, body, idempotencyKey, timeoutMs = defaultTimeoutMs } = request
  const text = body && JSON.stringify(body)
  const target = new URL(`admin/${path}`, url.href.endsWith('/') ? url : `${url.href}/`)
  // Loaded only here: commands that call no gateway, such as help, are 30 ms quicker without it.
  const { request: open } = await import(target.protocol === 'https:' ? 'node:https' : 'node:http')
  const headers = {
    authorization: `Bearer ${token}`,
    ...(text !== undefined && {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const sent = open(target, { method, headers, agent: false, timeout: timeoutMs, signal })
  sent.on('response', resolve).on('error', reject)
  sent.on('timeout', () => sent.destroy(new Unanswered(`no answer in ${timeoutMs / 1000} s`)))
  sent.end(text)
  const answer = (await promise).setEncoding('utf8')
  request.onAnswer?.()
  const { statusCode: status = 0 } = answer
  if (request.out && status === 200) {
    await pour(answer, request.out)
    return { status, text: '{}' }
  }
  return { status, text: (await answer.toArray()).join('') }
}

/** No answer came in time, as when the process is stopped or hangs. */
class Unanswered extends Error {}

/** What was written can't be taken back, so the request is not repeated. */
class BrokenDownload extends Error {}

async function pour(answer: IncomingMessage, out: Out): Promise<void> {
  try {
    for await (const text of answer as AsyncIterable<string>) await writeTo(out, text)
  } catch (cause) {
    throw new BrokenDownload(codeOf(cause) || String(cause), { cause })
  }
}

interface Refusal {
  readonly error: {
    readonly code: string
    readonly message: string
    readonly problems?: readonly Problem[]
  }
  readonly request_id?: string
}

function judge(url: URL, status: number, text: string): CallOutcome {
  const value = parsed(text)
  if (status >= 200 && status < 300 && value !== undefined) return { value }
  if (!isRefusal(value)) {
    const message = `${url.origin} answered ${status}, but not as a Tollgate admin listener does. Give the address of one with --admin URL.`
    return { exitCode: exit.unreachable, message, mayHelpAgain: status >= 500 }
  }
  const { error, request_id } = value
  if (error.problems) {
    const message = `${error.problems.map(formatProblem).join('\n')}\n${plural(error.problems.length, 'problem')}; nothing was changed.`
    return { exitCode: exit.configuration, message, mayHelpAgain: false, wasRefused: true }
  }
  const isOurFault = status >= 500
  const isToken = status === 401 || error.code === 'origin_not_allowed'
  return {
    exitCode: isOurFault ? exit.unreachable : isToken ? exit.refused : exit.failed,
    message: `${forPeople(error.message)} (${[error.code, request_id].filter(Boolean).join(', ')})`,
    mayHelpAgain: isOurFault || error.code === 'idempotency_in_progress',
    wasRefused: !isOurFault,
  }
}

/** Replaces a hint to a header, which a person at a terminal neither sees nor sends. */
function forPeople(message: string): string {
  return message
    .replace(/ as Retry-After says\.$/, ' in a moment.')
    .replace(/Send "Authorization: .*"\.$/, 'Give one with --token-file or $TOLLGATE_ADMIN_TOKEN.')
}

function isRefusal(value: unknown): value is Refusal {
  if (typeof value !== 'object' || value === null || !('error' in value)) return false
  const { error } = value
  return typeof error === 'object' && error !== null && 'code' in error && 'message' in error
}
