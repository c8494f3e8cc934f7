// The audit over HTTP: `GET /admin/audit`, as one JSON report, or with `?format=ndjson` as lines that tell how far it is.
// It stops when its client leaves; `?after=` takes it up from where it was.

import { Readable } from 'node:stream'
import { asGatewayError, errorBody } from '../../errors.ts'
import { json } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import { ClientLeft } from '../../http/body.ts'
import { parseIdPage, single } from '../../http/page.ts'
import { oneOf } from '../../http/query.ts'
import { invalidParameter } from '../../http/refusals.ts'
import type { AuditRequest, AuditStep } from '../../ledger/audit.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { Gateway } from '../../plugin.ts'
import { accountIn, route } from './route.ts'

type Auditing = Pick<Ledger, 'audit' | 'auditSteps' | 'countLate'>

export function auditRoute(gateway: Gateway): Route {
  const { ledger } = gateway
  const serve = async (x: Exchange): Promise<Answer> => {
    const isStreamed = oneOf(x.query, 'format', ['json', 'ndjson']) === 'ndjson'
    const { after } = parseIdPage(x.query, 'acct')
    const account = single(x.query, 'account')
    if (account !== undefined && after !== undefined)
      throw invalidParameter('after', 'Give "account" or "after", not both.')
    const ref = account === undefined ? undefined : (await accountIn(gateway, x, account)).ref
    const request = { ref, after, signal: x.signal }
    return isStreamed ? lines(ledger, request, x.id) : json(await ledger.audit(ref, request))
  }
  const query = ['account', 'after', 'format']
  return { ...route('GET', 'audit', serve, query), abortOnLeave: true }
}

/** Reads the first step before it answers: if Redis is away, the status can still say so. */
async function lines(ledger: Auditing, request: AuditRequest, requestId: string): Promise<Answer> {
  const steps = ledger.auditSteps(request)
  const first = await steps.next()
  const text = linesOf(ledger, { steps, first: first.value, requestId })
  const content = Readable.from(bytes(text), { objectMode: false, highWaterMark: pieceBytes })
  const headers = { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'no-store' }
  return { status: 200, headers, content }
}

const pieceBytes = 16 * 1024

async function* bytes(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of lines) yield Buffer.from(text)
}

/** Progress is told once a second. */
const progressMs = 1000

interface Told {
  readonly steps: AsyncIterable<AuditStep>
  readonly first: AuditStep
  readonly requestId: string
}

/**
 * Sends differences as they are found, the progress at the beginning and each second, and the end. If the audit fails,
 * an error comes in place of the end, and what was sent before holds.
 */
async function* linesOf(
  ledger: Auditing,
  { steps, first, requestId }: Told,
): AsyncGenerator<string> {
  let toldAt = performance.now()
  let last = first
  /**
   * `whole`: the last step with a new cursor. `told`: the last such step that was sent. Steps after `whole` with the
   * same cursor also count entries of accounts beyond it.
   */
  let [whole, told] = [first, first]
  yield progress(first)
  try {
    for await (const step of steps) {
      last = step
      if (step.cursor !== whole.cursor) whole = step
      const texts = step.differences.map((one) => line({ object: 'audit.difference', ...one }))
      if (performance.now() - toldAt >= progressMs) {
        if (whole !== told && whole !== step) texts.push(progress(whole))
        texts.push(progress(step))
        ;[toldAt, told] = [performance.now(), whole]
      }
      if (texts.length > 0) yield texts.join('')
    }
    const { accounts, entries, difference_count } = last
    const counts = { accounts, entries, difference_count }
    yield line({ object: 'audit.end', ...counts, late: await ledger.countLate() })
  } catch (error) {
    if (error instanceof ClientLeft) return
    yield progress(whole)
    yield `${errorBody(asGatewayError(error), requestId)}\n`
  }
}

function progress({ accounts, entries, difference_count, total, cursor }: AuditStep): string {
  const counts = { accounts, entries, difference_count, total, cursor }
  return line({ object: 'audit.progress', ...counts })
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`
}
