// Uploads with mutated forms, cut anywhere: each ends with a whole file or with a refusal that says why, and none ends
// the process.

import { hash } from 'node:crypto'
import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { ClientLeft } from '../../src/http/body.ts'
import { fuzzedForm, request, storeFailed } from '../fixtures/multipart-fuzz.ts'
import type { FuzzedForm } from '../fixtures/multipart-fuzz.ts'
import { receiveInMemory } from '../fixtures/multipart-server.ts'
import type { Told } from '../fixtures/multipart-server.ts'
import { seeded } from '../fixtures/random.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const forms = Number(process.env.FORMS ?? 20_000)

async function upload(form: FuzzedForm): Promise<Told> {
  const { promise, resolve, reject } = Promise.withResolvers<Told>()
  await request(form, (req) => {
    receiveInMemory(req, { idleMs: 5000, ...form.options }).then(resolve, reject)
  })
  return promise
}

/** Returns what is wrong with the end; undefined if nothing is. */
function wrongWith({ received, error, kept, lost, calls }: Told, form: FuzzedForm) {
  if (received) {
    if (form.options.put) return received.bytes === 0 ? undefined : 'a store that failed has a file'
    if (kept?.length !== received.bytes) return `${kept?.length} of ${received.bytes} bytes`
    const sum = hash('sha256', kept)
    return sum === received.sha256 ? undefined : 'another sum'
  }
  if (kept) return 'the content of a refused form has ended'
  if (!form.options.put && calls.includes('put') && lost !== error) return `lost: ${String(lost)}`
  if (error === storeFailed) return form.options.put ? undefined : 'a store that did not fail'
  if (error instanceof ClientLeft) return form.leaves ? undefined : 'nobody has left'
  if (!(error instanceof GatewayError)) return String(error)
  if (error.code === 'request_timeout') return 'it hung'
  return error.status >= 400 && error.status < 500 ? undefined : error.code
}

t.test(
  `${forms} mutated forms each end properly (SEED=${seed})`,
  { timeout: 200_000 },
  async (t) => {
    const random = seeded(seed)
    const ends = new Map<string, number>()
    let wrong = 0
    for (let count = 0; count < forms && wrong < 5; count++) {
      const form = fuzzedForm(random)
      const told = await upload(form)
      const end = told.received
        ? 'received'
        : told.error instanceof GatewayError
          ? told.error.code
          : String(told.error)
      ends.set(end, (ends.get(end) ?? 0) + 1)
      const problem = wrongWith(told, form)
      if (problem === undefined) continue
      wrong++
      t.fail(`form ${count}: ${problem}`, { form: Buffer.concat(form.pieces).toString('latin1') })
    }
    t.comment(JSON.stringify(Object.fromEntries(ends)))
    for (const end of [
      'received',
      'malformed_request',
      'missing_parameter',
      'unknown_parameter',
      'file_too_large',
    ]) {
      t.ok((ends.get(end) ?? 0) > forms / 1000, `${end} was seen`)
    }
  },
)
