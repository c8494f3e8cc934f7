-- Purpose: reads what an audit compares, at one instant: an account, its open holds and its journal from an entry on.
-- The answer is one JSON text: so a call costs the gateway 25 µs, and 90 if ioredis reads the same values one by one.
-- All values are texts in Redis and stay texts: cjson writes only 14 digits of a number.
-- KEYS: account, hold rows, journal
-- ARGV: 1 the id behind which the entries begin, excluded, 2 the most entries
-- Reply: ok, now, JSON of { account, hold rows, entries }; an empty list may be written as {}

local account_key, hold_rows, journal = KEYS[1], KEYS[2], KEYS[3]
local after, most = ARGV[1], ARGV[2]

return { 'ok', now_ms(), cjson.encode({
  call('HGETALL', account_key),
  call('HGETALL', hold_rows),
  call('XRANGE', journal, '(' .. after, '+', 'COUNT', most),
}) }
