-- Purpose: what the scripts of the account page share. Log-ins that began before the account was suspended are void,
-- also when it was resumed since. Rows of links and log-ins begin with a time in ms: when the link ends, when the log-in
-- began. A function named read_ or find_ writes nothing.

local function read_owner(account)
  local found = call('HMGET', account, 'id', 'name', 'plan', 'status', 'suspended_at', 'closed_at')
  return {
    id = found[1], name = found[2] or '', plan = found[3] or 'default',
    is_suspended = found[4] == 'suspended', suspended_at = number(found[5]),
    is_deleted = found[6] ~= false,
  }
end

-- Makes room for one row more: what has ended goes, and of the others the oldest.
local function make_room(rows, most, has_ended)
  local found = call('HGETALL', rows)
  local living = {}
  for i = 1, #found, 2 do
    local begun = number(match(found[i + 1], '^%d+'))
    if has_ended(found[i + 1]) then
      call('HDEL', rows, found[i])
    else
      living[#living + 1] = { field = found[i], begun = begun }
    end
  end
  table.sort(living, function(a, b) return a.begun < b.begun end)
  for i = 1, #living - most + 1 do call('HDEL', rows, living[i].field) end
end

-- A log-in ends when it was not used for `idle` ms, and `whole` ms after it began.
local function read_login(row, owner, now, idle, whole)
  local begun, used, via, return_url = match(row or '', '^(%d+) (%d+) (%l+) (.*)$')
  begun, used = number(begun), number(used)
  local is_good = via ~= nil and now - used < idle and now - begun < whole
    and begun > owner.suspended_at and not owner.is_suspended
  return is_good and { begun = begun, used = used, via = via, return_url = return_url } or nil
end

local function write_login(logins, hash, login, idle)
  local times = int(login.begun) .. ' ' .. int(login.used)
  call('HSET', logins, hash, times .. ' ' .. login.via .. ' ' .. login.return_url)
  call('PEXPIRE', logins, int(idle))
end

local function open_login(logins, hash, login, owner, idle, whole, most)
  make_room(logins, most, function(row)
    return not read_login(row, owner, login.begun, idle, whole)
  end)
  write_login(logins, hash, login, idle)
end
