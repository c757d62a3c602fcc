-- The revisions behind a position.
--
-- ARGV  2 epoch · 3 revision
-- Answers  here, epoch, revision, asOf, digest, '1', entries (stream entries with a: asOf, c: cause, r: redo, u: undo) ·
--          here, epoch, revision, asOf, digest, '0' (the log does not reach back) · gone, reason

local m, reason = current()
if not m then
  return {'gone', reason}
end
local since = tonumber(ARGV[3])
if m.epoch ~= ARGV[2] or since > m.revision then
  return {'here', m.epoch, text(m.revision), text(m.asOf), m.digest, '0'}
end
local entries = {}
if since < m.revision then
  entries = redis.call('XRANGE', LOG, text(since + 1) .. '-0', text(m.revision) .. '-0')
end
if #entries ~= m.revision - since then
  return {'here', m.epoch, text(m.revision), text(m.asOf), m.digest, '0'}
end
return {'here', m.epoch, text(m.revision), text(m.asOf), m.digest, '1', entries}
