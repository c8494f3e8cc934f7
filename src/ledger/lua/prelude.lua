-- Purpose: what the scripts of the ledger share: the keys, the account, the time of a hold.
-- A function named read_, find_ or book_ writes nothing: all checks precede all writes.
-- Amounts are integers up to 2^53-1: doubles hold them exactly.

local HOUR_MS = 3600000
local DAY_MS = 86400000
local MAX_AMOUNT = 9007199254740991
-- Expiry of the marks of an hour, set at the hour's first settlement: its last mark may come almost an hour later, and
-- then still stays for 25 hours.
local MARK_SECONDS = 26 * 3600
-- With a key's id behind it: the field of the account that counts the open holds of that key.
local OPEN = 'open:'
-- A hold that was made in shadow mode says so in its meta, which the gateway writes as JSON: a text of a client cannot
-- contain these quotes unescaped.
local SHADOW = '"shadow":true'

local account_key, hold_rows, journal = KEYS[1], KEYS[2], KEYS[3]
-- Only the script knows Redis' hour, so the script derives the keys of an hour from the account's key: with the same
-- tag, all these keys lie in the same slot. While a Cluster moves this slot, it can refuse a derived key at any call.
-- So the script reads each derived key before the first write: a refusal has then changed nothing. See
-- docs/decisions/0024-keys-derived-in-lua.md.
local tag = string.sub(account_key, 1, -1 - #'account')

-- A Redis whose memory is full refuses a script at its first write, unless that write only frees memory, as HDEL does.
-- So a script that calls this before its other writes runs all the same: it ends what has begun, or makes room.
local function write_when_full()
  call('HDEL', account_key, '')
end

-- A hold id is a UUIDv7 in hex: its first 12 digits are its time.
local function made_at(hold_id)
  return tonumber(string.sub(hold_id, 1, 12), 16)
end

-- The key of the hash that keeps a hold's mark: one hash for each hour of hold ids.
local function settled_of(hold_id)
  return tag .. format('settled:%d', math.floor(made_at(hold_id) / HOUR_MS))
end

-- Reads the account. Returns also the values of further fields that the caller names; false where there is none.
local function read_account(...)
  local found = call('HMGET', account_key, 'id', 'granted', 'spent', 'reserved', 'owed', 'allowance', 'open',
    'next_expiry', ...)
  local owed = number(found[5])
  return {
    id = found[1], granted = number(found[2]), spent = number(found[3]), reserved = number(found[4]),
    owed = owed, owed_before = owed, allowance_text = found[6], open = number(found[7]),
    next_expiry = number(found[8]),
  }, unpack(found, 9)
end

-- The row of an open hold is `<amount> <charge> <prompt> <cached> <completion> <key id> <model> <meta>` and the deadline of
-- its lease, ms, in 13 digits. Gateways of earlier versions make rows that end with the meta, a JSON, and have the
-- deadlines in the zset `old_leases`.
local function with_deadline(row, deadline)
  return format('%s %013d', row, deadline)
end

local function deadline_of(row)
  return tonumber(string.sub(row, -13))
end

local function old_leases()
  return tag .. 'holds'
end

local function available_of(account)
  return account.granted - account.spent - account.reserved
end

-- Adds a field and its value to a list, as HSET and XADD take them.
local function add_field(fields, name, value)
  local count = #fields
  fields[count + 1], fields[count + 2] = name, value
end
