-- Accept one message: check the base, write, append to the log, trim it, tell the watching nodes. All or nothing.
--
-- ARGV  2 base epoch, or '' for: there must be no session · 3 base revision · 4 digest · 5 session id
--       6 secret (of a new session) · 7 ttl in ms, or '' for: as it is · 8 ttl of a new session that names none
--       9 cause · 10 '1' when 11 is the redo · 11 redo · 12 '1' when 13 is the undo · 13 undo
--       14 entries, 15 ms and 16 bytes the log may keep
--       17 fields set (name, value), 18 fields deleted, 19 records put (id, record), 20 records dropped, 21 scores
--       (score, id): how many of each; from 22 on they follow in this order
-- Answers  committed|repeated, epoch, revision, asOf · moved, epoch, revision · moved (there is no session)

local TRIMMED = 16 -- entries one commit removes at most; more are due only after a change of the limits or a long pause
local ENTRY_BYTES = 64 -- what an entry costs beside its content

local function apply(command, key, first, count, width)
  local changed = 0
  local last = first + count * width - 1
  for start = first, last, SLICE * width do
    changed = changed + redis.call(command, key, unpack(ARGV, start, math.min(start + SLICE * width - 1, last)))
  end
  return changed
end

local function entry_bytes(fields)
  local bytes = ENTRY_BYTES
  for i = 2, #fields, 2 do
    bytes = bytes + #fields[i]
  end
  return bytes
end

local function trim(m, most, most_ms, most_bytes)
  for _ = 1, TRIMMED do
    local length = redis.call('XLEN', LOG)
    if length <= 1 or (length <= most and m.logBytes <= most_bytes and m.oldest >= m.asOf - most_ms) then
      return
    end
    local head = redis.call('XRANGE', LOG, '-', '+', 'COUNT', '2')
    redis.call('XDEL', LOG, head[1][1])
    m.logBytes = m.logBytes - entry_bytes(head[1][2])
    m.oldest = tonumber(head[2][2][2])
  end
end

local m = current()
if m and not (m.epoch == ARGV[2] and m.revision == tonumber(ARGV[3])) then
  if m.digest == ARGV[4] then
    return {'repeated', m.epoch, text(m.revision), text(m.asOf)}
  end
  return {'moved', m.epoch, text(m.revision)}
end
if not m then
  if ARGV[2] ~= '' then
    return {'moved'}
  end
  m = {
    epoch = ARGV[1], revision = 0, asOf = 0, ttl = tonumber(ARGV[8]), count = 0, logBytes = 0,
    replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)'),
  }
  -- A full store refuses a script at its first write that needs memory, unless another write came before: so HSET leads.
  redis.call('HSET', META, 'id', ARGV[5], 'secret', ARGV[6], 'replid', m.replid)
  redis.call('HDEL', META, 'reason', 'token') -- of one that ended a moment ago
  redis.call('UNLINK', RECORDS, ORDER, LOG)
end
m.revision = m.revision + 1
m.asOf = math.max(NOW, m.asOf)
m.ttl = tonumber(ARGV[7]) or m.ttl

-- The log first: it is the one write that can fail (an entry of a foreign hand in the way), and nothing is written yet.
local fields = {'a', text(m.asOf), 'c', ARGV[9]}
if ARGV[10] == '1' then
  fields[#fields + 1], fields[#fields + 2] = 'r', ARGV[11]
end
if ARGV[12] == '1' then
  fields[#fields + 1], fields[#fields + 2] = 'u', ARGV[13]
end
redis.call('XADD', LOG, text(m.revision) .. '-0', unpack(fields))
if redis.call('XLEN', LOG) == 1 then
  m.logBytes, m.oldest = 0, m.asOf
end
m.logBytes = m.logBytes + entry_bytes(fields)

local sets, deletes, puts, drops, scores =
  tonumber(ARGV[17]), tonumber(ARGV[18]), tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21])
local at = 22
apply('HSET', META, at, sets, 2)
at = at + sets * 2
apply('HDEL', META, at, deletes, 1)
at = at + deletes
local puts_at = at
at = at + puts * 2
m.count = m.count - apply('HDEL', RECORDS, at, drops, 1)
apply('ZREM', ORDER, at, drops, 1)
at = at + drops
m.count = m.count + apply('HSET', RECORDS, puts_at, puts, 2)
apply('ZADD', ORDER, at, scores, 2)

trim(m, tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]))
redis.call('HSET', META, 'epoch', m.epoch, 'revision', text(m.revision), 'asOf', text(m.asOf), 'ttl', text(m.ttl),
  'expires', text(NOW + m.ttl), 'digest', ARGV[4], 'count', text(m.count), 'logBytes', text(m.logBytes),
  'oldest', text(m.oldest))
for i = 1, 4 do
  redis.call('PEXPIRE', KEYS[i], text(m.ttl + KEPT_MS))
end
tell('changed ' .. m.epoch .. ' ' .. text(m.revision) .. ' ' .. text(m.asOf) .. ' ' .. #ARGV[9] .. ' ' .. ARGV[10]
  .. '\n' .. ARGV[9] .. ARGV[11])
return {'committed', m.epoch, text(m.revision), text(m.asOf)}
