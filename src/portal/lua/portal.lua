-- Purpose: what the scripts of the account page share. Log-ins that began before the account was suspended are void,
-- even if it has been resumed since. Rows begin with a time in ms: when a link or a key of the playground ends, when a
-- log-in began. A function named read_ or find_ writes nothing.

local function read_owner(account)
  local found = call('HMGET', account, 'id', 'name', 'plan', 'status', 'suspended_at', 'closed_at')
  return {
    id = found[1], name = found[2] or '', plan = found[3] or 'default',
    is_suspended = found[4] == 'suspended', suspended_at = number(found[5]),
    is_deleted = found[6] ~= false,
  }
end

-- The rows that must be removed before one more is added: those that have ended, and the oldest of the others if there is
-- no room.
local function find_surplus(rows, most, has_ended)
  local found = call('HGETALL', rows)
  local living, gone = {}, {}
  for i = 1, #found, 2 do
    local time = number(match(found[i + 1], '^%d+'))
    if has_ended(found[i + 1]) then
      gone[#gone + 1] = found[i]
    else
      living[#living + 1] = { field = found[i], time = time }
    end
  end
  table.sort(living, function(a, b) return a.time < b.time end)
  for i = 1, #living - most + 1 do gone[#gone + 1] = living[i].field end
  return gone
end

-- Returns a function that says whether a row has ended. The row begins with the time of its end.
local function ended_by(now)
  return function(row) return number(match(row, '^%d+')) <= now end
end

local function name_of_key(page_keys, hmac)
  return string.sub(page_keys, 1, -1 - #'page-keys') .. 'key:' .. hmac
end

-- Reads these keys for one reason: while their slot moves, Redis must refuse the script before its first write.
local function ask_for_page_keys(page_keys, gone)
  for _, hmac in ipairs(gone) do call('EXISTS', name_of_key(page_keys, hmac)) end
end

-- The keys of the playground whose log-in is over, as `is_over` says.
local function find_page_keys(page_keys, is_over)
  local found = call('HGETALL', page_keys)
  local gone = {}
  for i = 1, #found, 2 do
    if is_over(match(found[i + 1], '^%d+ (.*)$')) then gone[#gone + 1] = found[i] end
  end
  ask_for_page_keys(page_keys, gone)
  return gone
end

local function end_page_keys(page_keys, gone)
  for _, hmac in ipairs(gone) do
    call('HDEL', page_keys, hmac)
    call('DEL', name_of_key(page_keys, hmac))
  end
end

-- A log-in ends when it was not used for `idle` ms, and `whole` ms after it began.
local function read_login(row, owner, now, idle, whole)
  local begun, used, via, return_url = match(row or '', '^(%d+) (%d+) (%l+) (.*)$')
  begun, used = number(begun), number(used)
  local is_good = via ~= nil and now - used < idle and now - begun < whole
    and begun > owner.suspended_at and not owner.is_suspended
  return is_good and { begun = begun, used = used, via = via, return_url = return_url } or nil
end

-- What has to be removed before a further log-in begins: the log-ins that have ended or find no room, their keys of the
-- playground, and those keys whose log-in has no row any more.
local function find_ending(logins, page_keys, most, has_ended)
  local gone = find_surplus(logins, most, has_ended)
  local is_gone = {}
  for _, hash in ipairs(gone) do is_gone[hash] = true end
  local is_over = function(hash) return is_gone[hash] or call('HEXISTS', logins, hash) == 0 end
  return { logins = gone, keys = find_page_keys(page_keys, is_over) }
end

local function open_login(logins, hash, login, idle)
  local times = int(login.begun) .. ' ' .. int(login.used)
  call('HSET', logins, hash, times .. ' ' .. login.via .. ' ' .. login.return_url)
  call('PEXPIRE', logins, int(idle))
end

local function end_all(logins, page_keys, ending)
  for _, hash in ipairs(ending.logins) do call('HDEL', logins, hash) end
  end_page_keys(page_keys, ending.keys)
end
