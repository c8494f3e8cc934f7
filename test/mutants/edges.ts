// Mutants of what goes in and out: http, plugins, config, backend, chat. Most of them are faults that no test noticed
// once.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

export const edgeMutants: readonly Mutant[] = [
  one(
    'backend/agents.ts',
    'socket.once(connected, clear)',
    "socket.once('connect', clear)",
    'backend/connections.ts',
  ),
  one(
    'backend/agents.ts',
    'if (!isSilent || socket.readableLength > 0) socket.destroy()',
    'if (!isSilent && socket.readableLength > 0) socket.destroy()',
  ),
  one('backend/connections.ts', 'this.#sweeping = undefined', ''),
  one(
    'backend/connections.ts',
    "return Number(port) || (protocol === 'https:' ? 443 : 80)",
    'return Number(port) || 80',
  ),
  one('backend/forward.ts', 'if (attempt.signal.aborted) throw abortError(attempt.signal)', ''),
  one(
    'backend/forward.ts',
    'return await send(attempt, { line, agent: connections.fresh() })',
    'return await send(attempt, { line, agent: connections.reusing })',
    'backend/connections.ts',
  ),
  one('backend/generated.ts', 'if (audioBytes > 0) this.#audioEvents++', ''),
  one(
    'backend/report.ts',
    "return (field(parsed(data), 'error') ?? null) !== null",
    "return field(parsed(data), 'error') !== undefined",
  ),
  one(
    'backend/request-headers.ts',
    'if (value !== undefined && !never.has(lower)) out[lower] = value',
    'if (value !== undefined) out[lower] = value',
    'backend/forward.ts',
  ),
  one(
    'backend/secrets.ts',
    'const sorted = [...all].sort((a, b) => b.length - a.length)',
    'const sorted = [...all].sort((a, b) => a.length - b.length)',
  ),
  one(
    'backend/outgoing-request.ts',
    'return this.#req?.reusedSocket === true && this.#req.socket?.bytesRead === this.#readBefore',
    'return this.#req?.reusedSocket === true',
    'backend/connections.ts',
  ),
  one(
    'backend/targets.ts',
    'const tiers = [...new Set(model.targets.map((target) => target.priority))].sort((a, b) => a - b)',
    'const tiers = [...new Set(model.targets.map((target) => target.priority))].sort()',
  ),
  one('backend/usage.ts', 'return isUncounted ? undefined : said', 'return said'),
  one(
    'backend/usage.ts',
    'const most = (options.outputPerChoice ?? 0) * options.choices',
    'const most = options.outputPerChoice ?? 0',
  ),
  one(
    'backend/usage.ts',
    "if (data.length < 16 && data.trim() === '[DONE]') {",
    "if (data === '[DONE]') {",
  ),
  one(
    'backend/usage.ts',
    'this.#nextCheck = Math.ceil(this.roughTokens * 1.25)',
    'this.#nextCheck = Infinity',
  ),
  one(
    'chat/address.ts',
    "return one.startsWith('*.') && host.endsWith(one.slice(1)) && host.length > one.length - 1",
    "return one.startsWith('*.') && host.endsWith(one.slice(2)) && host.length > one.length - 1",
  ),
  one(
    'chat/backend-status.ts',
    'return Math.min(Math.max(1, seconds), 3600) * 1000',
    'return Math.max(1, seconds) * 1000',
  ),
  one('chat/deadline.ts', "this.#parent.removeEventListener('abort', this.#onParent)", ''),
  one(
    'chat/frames.ts',
    "return `data: ${data.includes('\\n') ? data.replaceAll('\\n', '\\ndata: ') : data}\\n\\n`",
    "return `data: ${data.includes('\\n') ? data.replace('\\n', '\\ndata: ') : data}\\n\\n`",
  ),
  one('chat/generating.ts', 'x.forgetBody()', '', 'chat/generation.ts'),
  one(
    'chat/generating.ts',
    'const clientLeft = error instanceof ClientLeft || generation.x.left.aborted',
    'const clientLeft = error instanceof ClientLeft',
    'chat/generation.ts',
  ),
  one('chat/generation.ts', 'if (relay) relay.stop(reason)', 'if (false) void 0'),
  one(
    'chat/generation.ts',
    "else deadline.cancel(new GatewayError(reason === 'lost' ? 'ledger_unavailable' : reason))",
    "else deadline.cancel(new GatewayError('ledger_unavailable'))",
  ),
  one(
    'chat/relay.ts',
    "else this.#end({ kind: 'length', cut: true })",
    "else this.#end({ kind: 'length', cut: false })",
    'chat/generation.ts',
  ),
  one('chat/relay.ts', 'deadline.resume()', ''),
  one('chat/relay.ts', 'else if (this.#frames.length > heldBytes) this.#open()', ''),
  one(
    'chat/request.ts',
    'const done = () => (isSent ? free(counting.body) : undefined)',
    'const done = () => free(counting.body)',
  ),
  one(
    'chat/request.ts',
    'if (field !== carrier && scan.members.has(field)) edits.set(field, undefined)',
    '',
  ),
  one(
    'config/derive.ts',
    'price.input !== undefined && { price: { cached_input: price.input, ...price } }),',
    'price.input !== undefined && { price: { ...price, cached_input: price.input } }),',
  ),
  one('config/effective.ts', 'if (url.password) url.password = mask', ''),
  one('config/load.ts', 'report.hide(fitted.secrets)', ''),
  one(
    'data/folder.ts',
    'return ((await stat(dir)).mode & 0o077) === 0',
    'return ((await stat(dir)).mode & 0o007) === 0',
  ),
  one(
    'ledger/open.ts',
    'const isTold = redis.outage.refuses !== undefined && isOutage(cause, redis)',
    'const isTold = redis.outage.refuses !== undefined && false',
    'gateway.ts',
  ),
  one(
    'http/body.ts',
    'reading.catch(() => free(body)) // the caller awaits `reading` and gets the error',
    'reading.catch(() => undefined)',
  ),
  one('http/client-address.ts', 'if (!isTrusted(address)) break', 'if (!isTrusted(peer)) break'),
  one('lifecycle.ts', 'if (answering) await answering', ''),
  one('listeners/connection.ts', "res.once('close', () => due.pipelined--)", ''),
  one(
    'http/reply.ts',
    "isMidBody: isMidBody(res.req) || error.code === 'request_timeout',",
    'isMidBody: isMidBody(res.req),',
    'listeners/server.ts',
  ),
  one('listeners/server.ts', 'if (gate.draining) res.shouldKeepAlive = false', ''),
  one(
    'http/slow-reader.ts',
    "res.prependOnceListener('finish', () => res.setTimeout(0))",
    "res.once('finish', () => res.setTimeout(0))",
  ),
  one('http/slow-reader.ts', 'if (more < 0) unsent?.give(-more)', 'if (more < 0) void 0'),
  one('sharing/fair-turns.ts', 'if (waiting.length > 0) setImmediate(giveTurn)', ''),
  one(
    'plugins/admin/admin.ts',
    "return name === 'localhost' || name === '[::1]' || /^127(\\.\\d{1,3}){3}$/.test(name)",
    "return name === 'localhost' || name === '[::1]' || name.startsWith('127.')",
  ),
  one(
    'plugins/admin/keys.ts',
    'return listOf(rows.slice(-limit), rows.length > limit)',
    'return listOf(rows.slice(0, limit), rows.length > limit)',
  ),
  one(
    'plugins/admin/money.ts',
    "const account = single(x.query, 'account')",
    "const account = x.query.get('account') ?? undefined",
  ),
  one(
    'plugins/admin/once.ts',
    'if (isRefusal(error)) await asked(client.del(claim))',
    'await asked(client.del(claim))',
  ),
  one('plugins/auth.ts', 'return 1 + Math.floor(bodyBytes / 2 ** 20)', 'return 1'),
  one(
    'plugins/auth.ts',
    'x.proof ??= gateway.ledger.identify(x.caller)',
    'x.proof = gateway.ledger.identify(x.caller)',
  ),
  one('plugins/chat.ts', 'if (!request || request.refusal) return', 'if (!request) return'),
  one('plugins/cors.ts', "x.replyHeaders.Vary = 'Origin'", ''),
  one(
    'plugins/idempotency.ts',
    "return route.awaitsFirst === true && Boolean(headers['last-event-id'])",
    'return false',
  ),
  one('plugins/idempotency.ts', 'x.want = undefined', '', 'plugins/sessions/replay.ts'),
  one('plugins/idempotency.ts', 'x.memory.keep(0)', '', 'plugins/sessions/replay.ts'),
  one('plugins/limits.ts', 'await x.proof', ''),
  one(
    'plugins/limits.ts',
    'return { answered: known, admit: async () => (x.want ? undefined : known()) }',
    'return { answered: known }',
  ),
  one(
    'plugins/limits.ts',
    'return { answered: known, admit: async () => (x.want ? undefined : known()) }',
    'return { admit: async () => (x.want ? undefined : known()) }',
  ),
  one(
    'plugins/metering.ts',
    'if (choices > 1 && promptTokens < limit) {',
    'if (choices > 1) {',
    'journeys/tokens-a-minute.ts',
  ),
  one(
    'plugins/metering.ts',
    'const least = Math.min(outputTokens, minOutputTokens * choices)',
    'const least = Math.min(outputTokens, minOutputTokens)',
  ),
  one(
    'plugins/ops.ts',
    'const isReady = redis.up && !refuses && ledger.isOpen && !state.draining',
    'const isReady = redis.up && !refuses && ledger.isOpen',
    'listeners/listeners.ts',
  ),
  one(
    'plugins/ops.ts',
    "metrics.tokens.inc({ model, kind: 'input' }, tokens.prompt - tokens.cached)",
    "metrics.tokens.inc({ model, kind: 'input' }, tokens.prompt)",
  ),
  one('plugins/sessions/send.ts', 'if (left.aborted) then()', ''),
  one(
    'plugins/sessions/send.ts',
    'answered: () => void (pending = undefined),',
    '',
    'plugins/sessions/replay.ts',
  ),
  one('redis/outage.ts', 'if (isReplica || this.#isLeaving) return', ''),
]
