// The mutants of `npm run test:mutants`: each is a wrong line with the tests that must notice it. Here those of the
// money.

import { edgeMutants } from './edges.ts'
import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'
import { operatorMutants } from './operator.ts'
import { accountMutants } from './account.ts'
import { asleepMutants } from './asleep.ts'
import { pageMutants } from './page.ts'
import { storeMutants } from './stores.ts'
import { windowMutants } from './windows.ts'

const lua = (
  name: string,
  line: string,
  replacement: string,
  tests: readonly string[] = ['ledger/ledger.ts'],
) => one(`ledger/lua/${name}.lua`, line, replacement, ...tests)

const sessionLua = (name: string, line: string, replacement: string) =>
  one(`sessions/lua/${name}.lua`, line, replacement, 'sessions/streams/stream-rows.ts')

const fileLua = (name: string, line: string, replacement: string, test: string) =>
  one(`files/lua/${name}.lua`, line, replacement, `files/${test}.ts`)

const limits = ['ledger/limits.ts', 'ledger/ledger.ts']
const shadow = ['ledger/shadow.ts', 'ledger/property.ts']
const wide = ['ledger/ledger.ts', 'ledger/property.ts']

const closing = ['ledger/closing.ts']

export const mutants: readonly Mutant[] = [
  lua(
    'close',
    'if not is_closed and not is_empty and not is_forfeited then',
    'if false then',
    closing,
  ),
  lua(
    'write_off',
    'local amount = forgiven - (account.granted - account.spent)',
    'local amount = forgiven',
    closing,
  ),
  lua(
    'credit',
    "if call('HEXISTS', account_key, 'closed_at') == 1 then return { 'account_deleted', now } end",
    '',
    closing,
  ),
  lua(
    'settle',
    "if not row and call('HEXISTS', account_key, 'written_off') == 1 then return { 'late', now } end",
    '',
    closing,
  ),
  one(
    'accounts/lua/storage.lua',
    'if closed_at or bytes > quota then return false end',
    'if bytes > quota then return false end',
    'sessions/account-removal.ts',
  ),
  lua(
    'admit',
    'local amount = math.min(wanted, available, math.max(min, math.floor(available / shares)))',
    'local amount = wanted',
    wide,
  ),
  lua(
    'admit',
    'local amount = math.min(wanted, available, math.max(min, math.floor(available / shares)))',
    'local amount = math.min(wanted, available)',
    ['ledger/extending.ts'],
  ),
  lua(
    'extend',
    'local added = math.min(missing, math.max(least, math.floor(available / shares)), available)',
    'local added = math.min(missing, math.max(least, math.floor(available / shares)))',
    ['ledger/extending.ts', 'ledger/property.ts'],
  ),
  lua('extend', 'local missing = math.max(0, in_all - charged - held)', 'local missing = in_all', [
    'ledger/extending.ts',
    'ledger/property.ts',
  ]),
  lua(
    'extend',
    'local missing = math.max(0, in_all - charged - held)',
    'local missing = math.max(0, in_all - held)',
    ['ledger/extending.ts'],
  ),
  lua('extend', 'account.reserved = account.reserved + added', '', [
    'ledger/extending.ts',
    'ledger/property.ts',
  ]),
  lua(
    'extend',
    "row = int(held + added) .. ' ' .. progress .. ' ' .. tail",
    "row = int(held + added) .. ' 0 0 0 0 ' .. tail",
    ['ledger/extending.ts', 'ledger/property.ts'],
  ),
  lua('extend', "if status == 'suspended' then return { 'account_suspended', now } end", '', [
    'ledger/extending.ts',
  ]),
  lua(
    'extend',
    "if reaped == '0' and has_expired(account, now, lease) then return { 'reap', now } end",
    '',
    ['ledger/extending.ts'],
  ),
  lua(
    'extend',
    "if added < missing and reaped == '1' and has_expired(account, now, lease) then return { 'reap', now } end",
    '',
    ['ledger/extending.ts'],
  ),
  lua(
    'trim',
    "if now - tonumber(ms) > DAY_MS and call('XLEN', journal) == 0 then",
    "if call('XLEN', journal) == 0 then",
    ['ledger/archive.ts'],
  ),
  lua('trim', "if name == 'minute' and number(value) < minute then", "if name == 'minute' then", [
    'ledger/archive.ts',
  ]),
  lua(
    'trim',
    "local is_zero = value == '0' and string.sub(name, 1, #OPEN) == OPEN",
    'local is_zero = string.sub(name, 1, #OPEN) == OPEN',
    ['ledger/archive.ts'],
  ),
  lua(
    'trim',
    "if amount == 0 then call('HDEL', account_key, field) else call('HSET', account_key, field, int(amount)) end",
    "if amount ~= 0 then call('HSET', account_key, field, int(amount)) end",
    ['ledger/archive.ts'],
  ),
  one(
    'ledger/slices.ts',
    'const isAtItsEnd = wasUsedUp && this.#isUsedUp && !this.#hasMore',
    'const isAtItsEnd = this.#isUsedUp && !this.#hasMore',
    'ledger/slices.ts',
  ),
  one(
    'ledger/slices.ts',
    'if (isExact) this.#prompt ??= countPrompt()',
    '',
    'ledger/slices.ts',
    'journeys/slices.ts',
  ),
  one(
    'ledger/slices.ts',
    'if (this.#isUsedUp) this.#stream.pause(this.#asking)',
    '',
    'ledger/slices.ts',
    'journeys/slices.ts',
  ),
  one('ledger/leases.ts', 'if (hold.isListed) await hold.gauge()', '', 'ledger/leases.ts'),
  one(
    'backend/usage.ts',
    'return { ...used, completion: Math.min(used.completion, this.#maxTokens) }',
    'return used',
    'backend/usage.ts',
    'journeys/checkpoints.ts',
  ),
  one(
    'plugins/metering.ts',
    'promptTokens = await want.countPrompt(quick)',
    '',
    'journeys/checkpoints.ts',
  ),
  one(
    'chat/relay.ts',
    'if (this.#waiting) return void this.#waiting.push(() => this.#onEvent(event))',
    '',
    'journeys/slices.ts',
  ),
  lua(
    'prelude',
    'return account.granted - account.spent - account.reserved',
    'return account.granted - account.spent',
    wide,
  ),
  lua(
    'admit',
    'elseif available_to_all < min or (account.owed > 0 and wanted > 0) then',
    'elseif available_to_all <= min or (account.owed > 0 and wanted > 0) then',
    wide,
  ),
  lua(
    'admit',
    'elseif (rpm and requests_used + 1 > rpm) or (key.rpm and key.requests + 1 > key.rpm) then',
    'elseif (rpm and requests_used + 1 >= rpm) or (key.rpm and key.requests + 1 >= key.rpm) then',
    limits,
  ),
  lua(
    'admit',
    'elseif (tpm and tokens_used + counted > tpm) or (key.tpm and key.tokens + counted > key.tpm) then',
    'elseif (tpm and tokens_used + counted >= tpm) or (key.tpm and key.tokens + counted >= key.tpm) then',
    limits,
  ),
  lua(
    'admit',
    'if not is_same_minute then requests_used, tokens_used = 0, 0 end',
    'if not is_same_minute then tokens_used = 0 end',
    limits,
  ),
  lua(
    'admit',
    'if not is_same_minute then requests_used, tokens_used = 0, 0 end',
    'if not is_same_minute then requests_used = 0 end',
    limits,
  ),
  lua(
    'admit',
    "if not is_same_minute then add_field(fields, 'minute', int(minute)) end",
    '',
    limits,
  ),
  lua(
    'admit',
    'if key.minute ~= minute then key.requests, key.tokens = 0, 0 end',
    'if key.minute ~= minute then key.tokens = 0 end',
    limits,
  ),
  lua(
    'admit',
    'if key.minute ~= minute then key.requests, key.tokens = 0, 0 end',
    'if key.minute ~= minute then key.requests = 0 end',
    limits,
  ),
  lua('admit', 'elseif (concurrency and account.open + 1 > concurrency)', 'elseif false', limits),
  lua('settle', "if mark and string.sub(mark, 1, 1) == 's' then", 'if false then', wide),
  lua(
    'admit',
    'elseif available_to_all < min or (account.owed > 0 and wanted > 0) then',
    'elseif available_to_all < min then',
  ),
  lua('charges', 'account.owed = account.owed + charge.owed', '', wide),
  lua('sums', 'account.owed = account.owed - paid', '', wide),
  lua(
    'charges',
    'charge.owed = math.min(math.max(0, rest - paid), MAX_AMOUNT - account.owed)',
    'charge.owed = 0',
    wide,
  ),
  lua('settle', 'local repaid = book_repayment(account)', 'local repaid = nil', wide),
  lua(
    'charges',
    'if rest > paid and string.find(charge.meta, SHADOW, 1, true) then',
    'if rest > paid then',
    shadow,
  ),
  lua(
    'charges',
    'if rest > paid and string.find(charge.meta, SHADOW, 1, true) then',
    'if false then',
    shadow,
  ),
  lua(
    'charges',
    'if unwaived > 0 then charge.waived = add_waived(account, -unwaived) end',
    '',
    shadow,
  ),
  lua(
    'admit',
    'local amount = math.min(wanted, available, math.max(min, math.floor(available / shares)))',
    'local amount = math.min(wanted, math.max(min, math.floor(available / shares)))',
    shadow,
  ),
  lua(
    'admit',
    'elseif short and string.find(tail, SHADOW, 1, true) then',
    'elseif string.find(tail, SHADOW, 1, true) then',
    shadow,
  ),
  lua('admit', "if outcome == 'granted' then", 'if not is_reopening then', shadow),
  lua(
    'reap',
    'if charge.waived_in_all > 0 then add_field(fields, waived_field(charge.id), int(charge.waived_in_all)) end',
    '',
    shadow,
  ),
  one(
    'ledger/orders.ts',
    'const counted = wouldRefuse ? used.prompt + used.completion : countedTokens',
    'const counted = countedTokens',
    ...shadow,
  ),
  lua('credit', 'local repaid = book_repayment(account)', 'local repaid = nil', wide),
  lua('reap', 'local repaid = book_repayment(account)', 'local repaid = nil', [
    'ledger/debtors.ts',
  ]),
  lua('trim', "if fields.type == 'repayment' then owed = owed + number(fields.amount) end", '', [
    'ledger/archive.ts',
  ]),
  lua('settle', 'account.reserved = account.reserved - held', '', wide),
  lua(
    'settle',
    'book_charge(account, charge, total - before.charge, before)',
    'book_charge(account, charge, total, before)',
    wide,
  ),
  lua(
    'settle',
    'if number(last_minute) == minute and correction ~= 0 then',
    'if correction ~= 0 then',
    limits,
  ),
  lua(
    'settle',
    'if number(key_minute) == minute and correction ~= 0 then',
    'if correction ~= 0 then',
    limits,
  ),
  lua(
    'settle',
    'local correction = prompt + completion - estimate',
    'local correction = prompt - estimate',
    limits,
  ),
  lua('credit', 'if available + amount < 0 then', 'if false then', ['ledger/credit.ts']),
  lua('credit', "if of_hash ~= hash then return { 'idempotency_key_reused', now } end", '', [
    'ledger/credit.ts',
  ]),
  lua('checkpoint', 'local deadline = now + lease', 'local deadline = now', [
    'ledger/ledger-lease.ts',
  ]),
  lua('charges', 'account.spent = account.spent + paid', '', wide),
  lua('sums', 'account.spent = account.spent + paid', '', wide),
  one(
    'ledger/price.ts',
    'return bounded((price.request + microsOf(price, tokens) + micro - 1n) / micro)',
    'return bounded((price.request + microsOf(price, tokens)) / micro)',
  ),
  one(
    'ledger/price.ts',
    'if (sum <= Number.MAX_SAFE_INTEGER - 999_999) return Math.floor((sum + 999_999) / 1_000_000)',
    'if (sum <= Number.MAX_SAFE_INTEGER - 999_999) return Math.floor(sum / 1_000_000)',
  ),
  one(
    'ledger/price.ts',
    'if (sum <= Number.MAX_SAFE_INTEGER - 999_999) return Math.floor((sum + 999_999) / 1_000_000)',
    'if (sum <= Number.MAX_SAFE_INTEGER + 999_999) return Math.floor((sum + 999_999) / 1_000_000)',
  ),
  one(
    'ledger/admit.ts',
    "(isHeld && (word === 'budget_exceeded' || word === 'insufficient_balance'))",
    "(isHeld && word === 'insufficient_balance')",
  ),
  one(
    'ledger/admit.ts',
    'const countedTokens = Math.min(tokens, granted.mostTokens)',
    'const countedTokens = tokens',
  ),
  one(
    'ledger/admission.ts',
    'const answer = mayPassNow ? await this.#ask(request, call) : first',
    'const answer = first',
  ),
  one(
    'lifecycle.ts',
    'finished = done ? done.then(() => x.written) : x.written',
    'finished = done',
  ),
  one('ledger/debtors.ts', 'await addOwing(refs)', ''),
  one(
    'ledger/orders.ts',
    "flags: `${ending.estimated ? 'e' : ''}${ending.cut ? 'c' : ''}`,",
    "flags: '',",
  ),
  one(
    'ledger/outbox.ts',
    'if (entry?.isAnswered && ageMs - entry.answeredAtMs < keepMs) break',
    '',
  ),
  one('ledger/outbox.ts', "if (replies.includes('unreached')) throw unavailable()", ''),
  one(
    'ledger/leases.ts',
    "if (textAt(reply, 3 + i) === 'gone') lost.push(hold)",
    '',
    'ledger/leases.ts',
    'ledger/forgotten.ts',
    'ledger/ledger.ts',
  ),
  one(
    'backend/sse-reader.ts',
    'const searchFrom = Math.max(from, seen - 1)',
    'const searchFrom = seen',
  ),
  one(
    'backend/sse-reader.ts',
    'if (end - start > this.#maxBytes) throw this.#tooLarge(joined.slice(start, end))',
    '',
  ),
  one(
    'backend/report.ts',
    'const completion = Math.max(reported ?? 0, Math.min(counted, most))',
    'const completion = reported',
  ),
  one(
    'backend/usage.ts',
    'return choices > 1 ? this.#ended.size >= choices : this.#finishes > 0',
    'return this.#finishes > 0',
  ),
  sessionLua(
    'begin',
    "if call('HEXISTS', hold_rows, hold) == 0 then return { 'no_hold', now } end",
    '',
  ),
  sessionLua(
    'begin',
    "if history_version(last, ends) ~= seen then return { 'changed', now } end",
    '',
  ),
  sessionLua('prelude', "return (last or '-') .. ':' .. (ends or '0')", "return last or '-'"),
  sessionLua('append', "if owner ~= hold or ended then return 'lost', 0 end", ''),
  sessionLua('append', 'local is_stored = next_seq >= after', 'local is_stored = next_seq > after'),
  sessionLua('append', 'if is_unsaid or is_newest then break end', 'if is_newest then break end'),
  sessionLua(
    'finish',
    "if ended and not has_other_terminal then return { next_seq == after and 'ok' or 'lost', now } end",
    "if ended then return { next_seq == after and 'ok' or 'lost', now } end",
  ),
  sessionLua('withdraw', "if claim and call('GET', claim) == kept then", 'if false then'),
  sessionLua(
    'lost',
    "if row_of_hold and (tonumber(string.sub(row_of_hold, -13)) or math.huge) > now then return { 'alive', now } end",
    '',
  ),
  sessionLua(
    'finish',
    "if has_other_end and (cancelled or not may_replace_end()) then return { 'lost', now } end",
    '',
  ),
  sessionLua('finish', "call('XDEL', frames, int(next_seq) .. '-0')", ''),
  sessionLua(
    'finish',
    'local reached = has_other_terminal and next_seq - 1 or next_seq',
    'local reached = next_seq',
  ),
  one(
    'sessions/streams/reader.ts',
    'if (piece.isEnd) this.stop()',
    '',
    'sessions/streams/streams.ts',
  ),
  one('sessions/streams/streams.ts', 'if (hasEnd) return undefined', ''),
  one('sessions/streams/streams.ts', 'if (state.isOpen) return state', 'return state'),
  one(
    'sessions/streams/reader.ts',
    'if (piece?.isLost) await rows.terminals.note(place, piece.next - 1)',
    '',
    'sessions/streams/streams.ts',
  ),
  one('sessions/streams/follower.ts', 'if (isLost) await rows.terminals.note(place, next - 1)', ''),
  one(
    'sessions/streams/follower.ts',
    'const isOver = !state || (state.isEnded && state.next <= this.log.next)',
    'const isOver = !state',
  ),
  one('sessions/streams/recording.ts', "hasOtherEnd = reply.word === 'lost' && !isLast", ''),
  sessionLua(
    'amend',
    "if call('HGET', messages, message) ~= before then return { 'changed', now } end",
    '',
  ),
  one(
    'sessions/streams/recording.ts',
    'if (this.#appending || this.isUnwritable || this.#isFinishing) return',
    'if (this.#appending || this.isUnwritable) return',
  ),
  one(
    'sessions/streams/recording.ts',
    'this.#numbered = new Numbered(this.#options.owned.message, this.#next)',
    '',
  ),
  one(
    'sessions/streams/reader.ts',
    'if (from >= next && isLost) this.#give(afterLost(this.#seq))',
    'if (from > next && isLost) this.#give(afterLost(this.#seq))',
  ),
  one(
    'sessions/streams/follower.ts',
    'if (!this.#isPolling && !this.log.isEnded) this.#later()',
    '',
  ),
  one('sessions/streams/frame-log.ts', 'this.#frames.drop(this.#maxBytes)', ''),
  one('sessions/streams/frame-log.ts', 'this.#newest = undefined', ''),
  one('sessions/streams/frame-bytes.ts', 'if (excess <= 0 || before <= this.#first) return', ''),
  one('sessions/streams/frame-bytes.ts', 'if (isMostlyUnused) this.#fit(this.size)', ''),
  one(
    'sessions/streams/recording.ts',
    'if (this.log.first > this.#first) this.#resume(this.log.first, true)',
    '',
  ),
  one(
    'redis/script-commands.ts',
    "if (plain.has('script-commands') || !words.every(isWord)) return evalsha.call(this, ...words)",
    "if (plain.has('script-commands')) return evalsha.call(this, ...words)",
  ),
  one('sharing/joint-timer.ts', 'if (this.#stepOf.get(call) !== step) continue', ''),
  one(
    'sessions/streams/appends.ts',
    'const isOne = some.length === 1 || !wasRefused(error)',
    'const isOne = true',
  ),
  one('sessions/streams/appends.ts', 'for (const word of one.words) bytes += word.length', ''),
  one('backend/flat-text.ts', 'seen.char = rope.charCodeAt(0)', 'rope.charCodeAt(0)'),
  one('backend/flat-text.ts', 'this.#flattenAt = ropeChars', ''),
  one(
    'sessions/streams/streams.ts',
    'if (refusal) return refusal',
    '',
    'sessions/streams/generations.ts',
  ),
  fileLua(
    'reservation',
    'if more > 0 and not fits(account, stored.bytes + more, number(quota), number(unpaid)) then',
    'if false then',
    'files',
  ),
  fileLua(
    'reservation',
    "call('HSET', storage, id, int(needed), 'reserved', int(stored.reserved + more))",
    "call('HSET', storage, id, int(needed))",
    'files',
  ),
  fileLua(
    'begin',
    "local has_lease = not own or call('ZSCORE', due, record)",
    'local has_lease = true',
    'files',
  ),
  fileLua('commit', "call('HDEL', storage, id)", '', 'files'),
  fileLua('commit', 'if added > 0 then', 'if true then', 'files'),
  fileLua(
    'commit',
    "if more > 0 and call('HEXISTS', file, 'id') == 1 then return { 'ok', 0 } end",
    '',
    'files',
  ),
  fileLua(
    'commit',
    "return { call('HEXISTS', file, 'id') == 1 and 'ok' or 'lost', now }",
    "return { 'lost', now }",
    'files',
  ),
  fileLua(
    'commit',
    "local is_looked_at = call('EXISTS', session, session_files) == 2",
    "local is_looked_at = call('EXISTS', session, session_files) > 0",
    'files',
  ),
  fileLua('commit', "if left_ms == -2 then return { 'session_not_found', 0 } end", '', 'files'),
  one('files/due.ts', 'onReady(forget)', ''),
  one('files/due.ts', 'isAnnounced = false', ''),
  one(
    'files/due.ts',
    'if (known) remember(known, ref, minute)',
    'remember(remembered.get(redis) ?? new Map(), ref, minute)',
  ),
  fileLua('away', "call('ZADD', due, int(due_ms), 'object ' .. id .. ' 0')", '', 'sweeper'),
  fileLua(
    'claim',
    "if kind == 'upload' then taken = 'abandoned ' .. id .. ' 1' end",
    '',
    'sweeper',
  ),
  one(
    'files/sweeper.ts',
    'if (!(await hasRow(options, thing))) await store.abandon(objectName(ref, id))',
    'await store.abandon(objectName(ref, id))',
  ),
  one('files/upload/upload.ts', 'if (bytes > options.maxBytes) throw tooLarge()', ''),
  one('files/upload/upload.ts', 'hash.update(piece)', ''),
  one(
    'files/shelf.ts',
    "const isUnclear = isCommitting && hasCode(error, 'ledger_unavailable')",
    'const isUnclear = false',
  ),
  one(
    'files/shelf.ts',
    "return hasCode(error, 'storage_unavailable') || hasCode(error, 'server_draining')",
    'return false',
  ),
  one(
    'files/download/download.ts',
    "if (wish === 'inline') return shownInline.has(contentType) ? wish : 'attachment'",
    "if (wish === 'inline') return wish",
  ),
  one(
    'http/content.ts',
    'if (left > 0) throw new Error(`the content is ${left} bytes shorter than ${length}`)',
    '',
  ),
  ...storeMutants,
  ...asleepMutants,
  ...windowMutants,
  ...edgeMutants,
  ...accountMutants,
  ...pageMutants,
  ...operatorMutants,
]
