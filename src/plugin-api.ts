// What an operator's own plugin imports, as `tollgate/plugin`, wherever its file lies.

export { z } from './config/schema.ts'
export { GatewayError } from './errors.ts'
export { answering, json, refOf } from './exchange.ts'
export type { Answer, BackendRequest, Exchange, Hooks, Outcome, Route } from './exchange.ts'
export type { Run, Serving, SseEvent } from './exchange.ts'
export { parseFields } from './http/fields.ts'
export type { Gateway, Plugin, Running } from './plugin.ts'
