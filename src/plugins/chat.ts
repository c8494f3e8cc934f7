// Stateless chat and the other metered endpoints of OpenAI's API:
// parses the request before the hold, then starts a generation.

import type { Route } from '../exchange.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { noKeys } from '../config/schema.ts'
import { endpoints } from '../config/endpoints.ts'
import type { EndpointRow } from '../config/endpoints.ts'
import { generate } from '../chat/generation.ts'
import { parseChatRequest } from '../chat/request.ts'
import type { ChatRequest } from '../chat/request.ts'

export const chat: Plugin = {
  name: 'chat',
  schema: noKeys.describe("`/v1/chat` and the other endpoints of OpenAI's API that cost tokens."),
  setup: (gateway) => ({
    routes: endpoints.flatMap((row) => row.routes.map((path) => routeTo(gateway, row, path))),
  }),
}

const message =
  'No model of this name serves this endpoint. GET /v1/models lists those you may use.'

function routeTo(gateway: Gateway, row: EndpointRow, path: string): Route {
  const { limits } = gateway.config
  const { targets } = gateway
  return {
    method: 'POST',
    path,
    access: 'chat',
    body: 'json',
    maxBytes: limits.jsonV1Bytes,
    // The backend gets the bytes of the body itself; here, only the beginning of a data URL is needed.
    keptChars: 16 * 1024,
    metered: true,
    abortOnLeave: true,
    begin(x) {
      let request: ChatRequest | undefined
      return {
        identify() {
          request = parseChatRequest(x.body, row, gateway.findModel)
          if (!request || request.refusal) return
          x.want = request
          x.facts.model = request.model.id
          x.facts.stream = request.stream
        },
        serve(run) {
          // Thrown only here, after identification: so a client without a valid key learns nothing about models.
          if (!request) throw new GatewayError('model_not_found', { param: 'model', message })
          if (request.refusal) throw request.refusal
          return generate(x, { run, request, limits, targets })
        },
      }
    },
  }
}
