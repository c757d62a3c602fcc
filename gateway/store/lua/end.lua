-- End the session.
--
-- ARGV  2 base epoch, or '' for: whatever its position · 3 base revision · 4 token of this call: a retry after a lost
--       answer finds its own end
-- Answers  ended, epoch, revision · moved, epoch, revision · moved (there is no session)

local m = current()
if not m then
  local last = redis.call('HMGET', META, 'token', 'epoch', 'revision')
  if last[1] == ARGV[4] then
    return {'ended', last[2], last[3]}
  end
  return {'moved'}
end
if ARGV[2] ~= '' and not (m.epoch == ARGV[2] and m.revision == tonumber(ARGV[3])) then
  return {'moved', m.epoch, text(m.revision)}
end
finish('ended', 'token', ARGV[4], 'epoch', m.epoch, 'revision', text(m.revision))
return {'ended', m.epoch, text(m.revision)}
