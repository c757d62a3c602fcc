-- Where the session stands; what is due (an end, a new epoch) is done by the prelude.
--
-- ARGV  2 '1' when the page is asked for
-- Answers  here, epoch, revision, asOf, page (false where there is none or it was not asked for) · gone, reason

local m, reason = current()
if not m then
  return {'gone', reason}
end
local page = false
if ARGV[2] == '1' then
  page = redis.call('HGET', META, 'p:page')
end
return {'here', m.epoch, text(m.revision), text(m.asOf), page}
