-- A part of the records, each with its score, and the position at which they were read.
--
-- ARGV  2 cursor ('0' first) · 3 about how many records
-- Answers  here, epoch, revision, next cursor ('0': that was all), records (id, record, …), scores · gone, reason
-- A record can come twice; as long as the position stands still every record comes.

local m, reason = current()
if not m then
  return {'gone', reason}
end
local found = redis.call('HSCAN', RECORDS, ARGV[2], 'COUNT', ARGV[3])
local pairs_found, scores = found[2], {}
for start = 1, #pairs_found, SLICE * 2 do
  local ids = {}
  for i = start, math.min(start + SLICE * 2 - 1, #pairs_found), 2 do
    ids[#ids + 1] = pairs_found[i]
  end
  for _, score in ipairs(redis.call('ZMSCORE', ORDER, unpack(ids))) do
    scores[#scores + 1] = score
  end
end
return {'here', m.epoch, text(m.revision), found[1], pairs_found, scores}
