-- Where the session stands; what is due (an end, a new epoch) is done by the prelude.
--
-- ARGV  2 '1' when the page is asked for · 3 the ttl from now on (ms, counted from the last revision), '' keeps it
-- Answers  here, epoch, revision, asOf, page (false where there is none or it was not asked for) · gone, reason

local m, reason = current()
if not m then
  return {'gone', reason}
end
if ARGV[3] ~= '' and tonumber(ARGV[3]) ~= m.ttl then
  local ttl = tonumber(ARGV[3])
  local expires = m.expires - m.ttl + ttl
  redis.call('HSET', META, 'ttl', text(ttl), 'expires', text(expires))
  for i = 1, 4 do
    redis.call('PEXPIREAT', KEYS[i], text(expires + KEPT_MS))
  end
end
local page = false
if ARGV[2] == '1' then
  page = redis.call('HGET', META, 'p:page')
end
return {'here', m.epoch, text(m.revision), text(m.asOf), page}
