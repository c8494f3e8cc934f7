-- Purpose: what drop and expire share: frees the row's bytes and queues its object until the store has removed it.

local function take_away(files, session_files, storage, due, id, bytes, row, due_ms)
  call('ZREM', files, id)
  call('ZREM', session_files, id)
  if not bytes then return end
  call('HINCRBY', storage, 'used', int(-number(bytes)))
  call('HINCRBY', storage, 'rows', int(-number(row)))
  call('ZREM', due, 'expiry ' .. id)
  call('ZADD', due, int(due_ms), 'object ' .. id .. ' 0')
end

