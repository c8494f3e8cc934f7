// GET /models of a target: is it there, does it take the key, does it have the model? A list is not needed to answer
// requests: a backend without one, or with other names in it, is worth a warning.

import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { Connections } from '../../backend/connections.ts'
import { ownHeaders } from '../../backend/request-headers.ts'
import type { Target } from '../../config/config.ts'
import { field } from '../../json-field.ts'
import { ok, warn } from './examination.ts'
import type { Outcome } from './examination.ts'
import { parsed, readBody, refusal } from './refusal.ts'

export interface Asking {
  readonly connectMs: number
  readonly signal: AbortSignal
}

const mostShown = 5

export async function listModels(target: Target, asking: Asking): Promise<Outcome> {
  const answer = await get(target, asking)
  const status = answer.statusCode ?? 0
  const body = await readBody(answer)
  if (status === 401 || status === 403) return refusal(status, body, target)
  // One was seen that answers 500 here, and chats.
  if (status !== 200) return { ...refusal(status, body, target), verdict: 'warn' }
  const ids = idsIn(parsed(body.toString()))
  if (!ids) return warn('the answer is no list of models')
  if (isListed(target.model, ids)) return ok(`${target.model} is listed`)
  const some = [...ids.slice(0, mostShown), ...(ids.length > mostShown ? ['…'] : [])].join(', ')
  return warn(`${target.model} is not among the ${ids.length} that are listed: ${some}`)
}

/** http-proxy-3 only ever posts here; all else is as on the way of a request. */
function get(target: Target, { connectMs, signal }: Asking): Promise<IncomingMessage> {
  const url = new URL(target.url)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/models`
  const { fresh: agent } = new Connections({ url, ca: target.ca, connectMs })
  const headers = { ...ownHeaders(target, url), accept: 'application/json', connection: 'close' }
  return new Promise((resolve, reject) => {
    const req = request(url, { agent, headers, signal, auth: null })
    req.once('response', resolve)
    req.on('error', reject)
    req.end()
  })
}

function idsIn(list: unknown): readonly string[] | undefined {
  const data = field(list, 'data')
  if (!Array.isArray(data)) return undefined
  return data.map((one) => field(one, 'id')).filter((id) => typeof id === 'string')
}

/** Ollama lists `llama3` as `llama3:latest`. */
function isListed(model: string, ids: readonly string[]): boolean {
  return ids.includes(model) || ids.includes(`${model}:latest`)
}
