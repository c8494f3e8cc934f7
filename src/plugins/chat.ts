// Stateless chat and the other metered endpoints of OpenAI's API: parses what is asked before anything is held, then
// hands over to a generation.

import type { Exchange, Route } from '../exchange.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway, Hooks, Plugin } from '../plugin.ts'
import { z } from '../config/schema.ts'
import { endpoints } from '../chat/endpoints.ts'
import type { EndpointRow } from '../chat/endpoints.ts'
import { generate } from '../chat/generation.ts'
import { parseChatRequest } from '../chat/request.ts'
import type { ChatRequest } from '../chat/request.ts'

const schema = z.strictObject({})

export const chat: Plugin<z.infer<typeof schema>> = {
  name: 'chat',
  schema,
  setup(gateway) {
    const requests = new Map<Exchange, ChatRequest>()
    const rows = new Map<Route, EndpointRow>()
    for (const row of endpoints) {
      for (const path of row.routes) rows.set(routeTo(gateway, requests, path), row)
    }
    return {
      routes: [...rows.keys()],
      begin(x): Hooks | undefined {
        const row = rows.get(x.route)
        if (!row) return undefined
        return {
          identify() {
            const request = parseChatRequest(x.body, row, gateway.findModel)
            if (!request) return
            requests.set(x, request)
            if (!request.refusal) expect(x, request)
          },
          done: () => void requests.delete(x),
        }
      },
    }
  },
}

const message =
  'No model of this name serves this endpoint. GET /v1/models lists those you may use.'

function routeTo(
  gateway: Gateway,
  requests: ReadonlyMap<Exchange, ChatRequest>,
  path: string,
): Route {
  return {
    method: 'POST',
    path,
    access: 'chat',
    body: 'json',
    maxBytes: gateway.config.limits.jsonV1Bytes,
    // What goes to a backend are the body's own bytes: data URLs are judged by how they begin.
    keptChars: 16 * 1024,
    metered: true,
    abortOnLeave: true,
    serve(x, run) {
      const request = requests.get(x)
      // Told only now: strangers learn nothing about models.
      if (!request) throw new GatewayError('model_not_found', { param: 'model', message })
      if (request.refusal) throw request.refusal
      return generate(x, { run, request, limits: gateway.config.limits })
    },
  }
}

function expect(x: Exchange, request: ChatRequest): void {
  const { model, promptTokens, mostPrompt, countPrompt, outputPerChoice, choices, fields } = request
  x.facts.model = model.id
  x.facts.stream = request.stream
  const outputTokens = outputPerChoice * choices
  x.want = { model, promptTokens, mostPrompt, countPrompt, outputTokens, choices, fields }
}
