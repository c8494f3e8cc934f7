// Mutants of what is kept: ledger, sessions, files. Most of them are faults that no test noticed once.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

export const storeMutants: readonly Mutant[] = [
  one(
    'gateway.ts',
    'uploads.resize(Math.max(2, Math.floor(limits.uploadsBytes / workers / uploadMemoryBytes(store))))',
    'uploads.resize(Math.floor(limits.uploadsBytes / workers / uploadMemoryBytes(store)))',
    'plugins/files/files.ts',
  ),
  one('files/upload/form.ts', 'wasHeld = parser.writableNeedDrain', ''),
  one(
    'files/lua/claim.lua',
    'wait_ms = math.min(taken_ms * 2 ^ (tries - 1), most_ms)',
    'wait_ms = taken_ms * 2 ^ (tries - 1)',
    'files/sweeper.ts',
  ),
  one(
    'files/lua/forget.lua',
    "call('HINCRBY', storage, 'reserved', int(-number(own)))",
    '',
    'files/files.ts',
  ),
  one('files/message-files.ts', 'if (row.session !== session) throw notHere(id, param)', ''),
  one(
    'accounts/account-names.ts',
    'const after = `${id} ${Date.now()} ${owner === id ? writers + 1 : 1}`',
    'const after = `${id} ${Date.now()} 1`',
  ),
  one(
    'accounts/accounts.ts',
    "if (others.some(({ account }) => account.id !== id)) throw taken('name')",
    '',
  ),
  one(
    'accounts/account-keys.ts',
    'const endsAt = Math.min(nowS + graceS, Number(expires_at ?? Infinity))',
    'const endsAt = nowS + graceS',
  ),
  one(
    'ledger/journal.ts',
    'const from = recent.at(-1)?.[0] ?? cursor',
    'const from = cursor',
    'ledger/archive.ts',
  ),
  one(
    'ledger/leases.ts',
    'const ms = Math.min(Math.max(1000, this.#holds.size), this.#options.leaseMs / 3)',
    'const ms = Math.max(1000, this.#holds.size)',
  ),
  one(
    'ledger/lua/admit.lua',
    'if account.minute ~= minute then account.requests, account.tokens = 0, 0 end',
    '',
    'ledger/limits.ts',
  ),
  one(
    'ledger/lua/admit.lua',
    'if key.minute ~= minute then key.requests, key.tokens = 0, 0 end',
    '',
    'ledger/limits.ts',
  ),
  one(
    'ledger/lua/admission.lua',
    'if #ids == 0 or uptime_ms() < lease then return reap end',
    'if #ids == 0 then return reap end',
    'ledger/ledger-lease.ts',
  ),
  one(
    'ledger/lua/usage.lua',
    'charge.completion = completion - before.completion',
    'charge.completion = completion',
    'ledger/property.ts',
  ),
  one(
    'ledger/lua/prelude.lua',
    "return tag .. format('settled:%d', math.floor(made_at(hold_id) / HOUR_MS))",
    "return tag .. format('settled:%d', math.floor(now_ms() / HOUR_MS))",
    'ledger/orders.ts',
  ),
  one(
    'ledger/lua/settle.lua',
    'local usage_hour, usage_day = usage_keys(now)',
    'local usage_hour, usage_day = usage_keys(made_at(id))',
    'ledger/admission.ts',
  ),
  one(
    'ledger/lua/usage.lua',
    "return tag .. format('usage:h%d', math.floor(now / HOUR_MS)),",
    "return format('usage:h%d', math.floor(now / HOUR_MS)) .. tag,",
    'ledger/library.ts',
  ),
  one(
    'ledger/lua/admission.lua',
    'read_usage(reap.hour, reap.day, charge)',
    '',
    'ledger/ledger-lease.ts',
  ),
  one('ledger/lua/admission.lua', "call('EXISTS', reap.hour, reap.day)", '', 'redis/scripts.ts'),
  one(
    'ledger/lua/settle.lua',
    'local usage_hour, usage_day = usage_keys(now)',
    "call('HSET', settled, id, 's 0 0') local usage_hour, usage_day = usage_keys(now)",
    'redis/scripts.ts',
  ),
  one(
    'ledger/lua/settle.lua',
    'if account.minute == minute and correction ~= 0 then',
    'if correction ~= 0 then',
    'ledger/limits.ts',
  ),
  one(
    'ledger/lua/settle.lua',
    'if number(of_key[1]) == minute and correction ~= 0 then',
    'if correction ~= 0 then',
    'ledger/limits.ts',
  ),
  one(
    'ledger/lua/settle.lua',
    'sums = { open_field(key_id), int(account.open_of_key - 1) }',
    '',
    'ledger/ledger.ts',
  ),
  one(
    'ledger/spool.ts',
    'await written.then(() => rm(path, { force: true })).catch(() => this.#taken.add(path))',
    'await written.catch(() => undefined).then(() => rm(path, { force: true }))',
  ),
  one('data/lock.ts', "return hasCode(error, 'EPERM')", 'return false'),
  one('sessions/streams/follower.ts', 'this.#failed = 0', ''),
  one('sessions/streams/generations.ts', 'if (generation.meter.finished) return', ''),
  one('sessions/streams/streams.ts', 'if (x.left.aborted) stop()', ''),
  one('sessions/streams/reader-slots.ts', 'if (hasLeft) return', ''),
  one(
    'sessions/lua/lost.lua',
    "if not owner then call('DEL', frames) end",
    '',
    'sessions/streams/stream-rows.ts',
  ),
  one(
    'sessions/sending/prepare.ts',
    'const contextWindow = Math.min(options.model.contextWindow, tokensPerMinute)',
    'const { contextWindow } = options.model',
    'journeys/tokens-a-minute.ts',
  ),
  one(
    'ledger/lua/identify.lua',
    "account.status or '', key.tpm or -1,",
    "account.status or '', key.rpm or -1,",
    'journeys/tokens-a-minute.ts',
  ),
  one(
    'ledger/hold-rows.ts',
    "if (kind === 'r') return { state: 'reaped', used: toProgress(words) }",
    "if (kind !== '') return { state: 'reaped', used: toProgress(words) }",
    'ledger/hold-rows.ts',
    'sessions/streams/lost.ts',
  ),
  one(
    'sessions/lua/append.lua',
    "if left_ms > 0 then call('PEXPIRE', frames, int(left_ms)) end",
    '',
    'sessions/streams/stream-rows.ts',
  ),
  one(
    'sessions/lua/patch.lua',
    'if more > 0 and not fits(account, stored.bytes + more, number(quota), number(unpaid)) then',
    'if not fits(account, stored.bytes + more, number(quota), number(unpaid)) then',
    'sessions/sessions.ts',
  ),
  one(
    'sessions/lua/remove.lua',
    "call('HSET', stream, 'cancelled', '1')",
    '',
    'sessions/sessions.ts',
  ),
]
