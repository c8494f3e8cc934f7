-- Purpose: tells whether the messages of a session are still those that a send has read; stands before recent and begin.

-- `ends` counts the ends of answers: one that ends, or gets another end, changes under the same id.
local function history_mark(last, ends)
  return (last or '-') .. ':' .. (ends or '0')
end

