// Mutants of sessions that sleep in the store: what keeps a message from being lost, and an object from being left.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const sleeping = 'sessions/asleep/sleeping.ts'
const waking = 'sessions/asleep/waking.ts'
const unnamed = 'sessions/asleep/unnamed.ts'
const rounds = 'sessions/asleep/rounds.ts'
const streamRows = 'sessions/streams/stream-rows.ts'
const assembly = 'sessions/streams/assembly.ts'

const lua = (name: string, line: string, test: string, replacement = '') =>
  one(`sessions/lua/${name}.lua`, line, replacement, test)

const isAsleep = "if asleep then return { 'asleep', now, asleep } end"
const isLost = "if before.asleep then return { 'lost', now } end"

export const asleepMutants: readonly Mutant[] = [
  lua(
    'sleep',
    "if (call('HGET', session, ARGV[i]) or '') ~= ARGV[i + 1] then return { 'changed', now } end",
    sleeping,
  ),
  lua(
    'sleep',
    "if call('ZCARD', ids) ~= count or call('HLEN', messages) ~= count then return { 'changed', now } end",
    sleeping,
  ),
  lua(
    'sleep',
    "if number(call('ZSCORE', objects, object)) < now + hour_ms then return { 'late', now } end",
    sleeping,
  ),
  lua('wake', "if asleep ~= object then return { 'awake', now } end", waking),
  lua(
    'wake',
    "if call('ZCARD', ids) < count or call('HLEN', messages) < count then return { 'again', now } end",
    waking,
  ),
  lua('wake', 'expire_in(messages, left_ms)', waking),
  lua('wake', "call('HSET', session, 'woken', int(now))", rounds),
  lua('wake', "call('ZADD', objects, int(now + number(kept_ms)), object)", unnamed),
  lua(
    'remove',
    "if asleep then call('ZADD', objects, int(now + number(object_ms)), asleep) end",
    unnamed,
  ),
  lua(
    'named',
    "if call('HGET', session, 'asleep') ~= object then return { 'unnamed', now } end",
    unnamed,
  ),
  lua('amend', "call('HINCRBY', session, 'amended', 1)", sleeping),
  lua(
    'amend',
    "if call('HEXISTS', session, 'asleep') == 1 then return { 'changed', now } end",
    streamRows,
  ),
  lua('begin', isAsleep, streamRows),
  lua('finish', isLost, streamRows),
  lua('lost', "if before.asleep then return { 'ended', now } end", streamRows),
  lua('withdraw', "if asleep then return { 'lost', now } end", streamRows),
  lua('prelude', "if asleep then return 'lost' end", streamRows),
  lua('recent', isAsleep, 'sessions/sending/prepare.ts'),
  lua('list', isAsleep, waking),
  lua('row', isAsleep, waking),
  one(unnamed, "if (word !== 'unnamed') return false", ''),
  one(
    sleeping,
    'if (!kept.equals(bytes)) throw new Error(`The store did not keep ${name} as it was written`)',
    '',
  ),
  one(
    sleeping,
    'await asked(redis.zadd(keys.sessionObjects(ref), nowMs + objectKeptMs, object))',
    '',
  ),
  one(sleeping, 'await asked(redis.sadd(keys.sleepers, ref))', ''),
  one(sleeping, 'if (ids !== texts) return false', ''),
  one(
    rounds,
    'return archive_after === 0 ? 0 : Math.max(archive_after, replay_keep)',
    'return archive_after',
  ),
  one(sleeping, 'if (ids === 0) return false', ''),
  one(sleeping, 'if (nowMs - restsSince < restMs) return false', ''),
  one(waking, 'await mayWake', '', 'sessions/sending/prepare.ts'),
  one(waking, 'if (!(await this.#isNamed(place, object))) return', ''),
  one(waking, 'if (running) return running', ''),
  one('sessions/account-removal.ts', 'await erase.objects(ref)', '', 'sessions/account-removal.ts'),
  one(
    assembly,
    'if (this.#usual && text !== undefined && !escaped.test(text)) this.#usual.add(decoded(text))',
    'if (this.#usual && text !== undefined) this.#usual.add(decoded(text))',
  ),
  one(assembly, "if (data.includes('\\\\') || piece.includes('\\ufffd')) return", ''),
  one(
    assembly,
    "if (data.includes('\\\\') || piece.includes('\\ufffd')) return",
    "if (data.includes('\\\\')) return",
  ),
  one(
    assembly,
    'if (start < 0 || data.indexOf(quoted, start + 1) >= 0) return',
    'if (start < 0) return',
  ),
  one(
    assembly,
    'else if (said && choices.length === 1) this.#learn(data, said)',
    'else if (said) this.#learn(data, said)',
  ),
  one(
    assembly,
    "if (piece === '' || !isAll || Array.isArray(calls)) return undefined",
    "if (piece === '' || Array.isArray(calls)) return undefined",
  ),
  one(
    assembly,
    "if (piece === '' || !isAll || Array.isArray(calls)) return undefined",
    "if (piece === '' || !isAll) return undefined",
  ),
  one(
    'backend/pattern.ts',
    'this.#before = copied(data.slice(0, start))',
    'this.#before = data.slice(0, start)',
  ),
  one(
    'backend/pattern.ts',
    'if (data.slice(to) !== this.#behind || data.slice(0, from) !== this.#before) return undefined',
    'if (data.slice(to) !== this.#behind) return undefined',
  ),
]
