-- The session's metadata and, where it has at most so many records, all of it.
--
-- ARGV  2 records that are told at once
-- Answers  here, epoch, revision, asOf, meta (field, value, …), count, records (id, record, …), order (id, score, …) ·
--          gone, reason. Of a larger session records and order are empty; `slice` brings them.

local m, reason = current()
if not m then
  return {'gone', reason}
end
local records, order = {}, {}
if m.count <= tonumber(ARGV[2]) then
  records = redis.call('HGETALL', RECORDS)
  order = redis.call('ZRANGE', ORDER, '0', '-1', 'WITHSCORES')
end
return {'here', m.epoch, text(m.revision), text(m.asOf), redis.call('HGETALL', META), text(m.count), records, order}
