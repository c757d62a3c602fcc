-- Prelude of every script; Python puts it in front of each. Content is opaque: nothing here looks into a part or record.
--
-- KEYS  1 meta (hash) · 2 records (hash id → record) · 3 order (sorted set id → score) · 4 log (stream, id = revision-0)
-- ARGV  1 an epoch to begin with, should one have to begin here
--
-- Fields of meta: id epoch revision asOf expires ttl (ms) secret digest replid · count (of records) · logBytes · oldest
-- (asOf of the log's first entry) · p:<name> for each small part. After the end: reason, and of `end` token, epoch,
-- revision; all else is gone.
--
-- Events, SPUBLISHed on the name the keys have in common:
--   changed <epoch> <revision> <asOf> <bytes of cause> <1: redo follows, 0: none>\n<cause><redo>
--   renewed <epoch> <revision> <asOf>\n
--   ended <reason>\n

local META, RECORDS, ORDER, LOG = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local CHANNEL = string.sub(META, 1, -6) -- without ":meta"
local KEPT_MS = 3600000 -- a reason, and the keys of a session nobody ends, stay this long past the end
local SLICE = 1000 -- pairs handed to one command: Lua's stack holds 8 000 values

local clock = redis.call('TIME')
local NOW = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function text(number)
  return string.format('%.0f', number) -- tostring() writes 1e+15
end

-- A refusal (an ACL without the channel) must not fail a script whose writes took effect: positions heal what is missed.
local function tell(message)
  redis.pcall('SPUBLISH', CHANNEL, message)
end

-- Leave nothing of the session but the reason. `lost` leaves nothing at all.
local function finish(reason, ...)
  redis.call('UNLINK', META, RECORDS, ORDER, LOG)
  if reason ~= 'lost' then
    redis.call('HSET', META, 'reason', reason, ...)
    redis.call('PEXPIRE', META, text(KEPT_MS))
  end
  tell('ended ' .. reason .. '\n')
end

-- The session as meta tells it, or nil and the reason why there is none. Ends what is expired or incomplete, and begins
-- a new epoch where the store's history is another one than the session's (protocol §6.2).
local function current()
  local f = redis.call('HMGET', META, 'reason', 'epoch', 'revision', 'asOf', 'expires', 'ttl', 'digest', 'replid',
    'count', 'logBytes', 'oldest')
  if f[1] then
    return nil, f[1]
  end
  local m = {
    epoch = f[2], revision = tonumber(f[3]), asOf = tonumber(f[4]), expires = tonumber(f[5]), ttl = tonumber(f[6]),
    digest = f[7], replid = f[8], count = tonumber(f[9]), logBytes = tonumber(f[10]), oldest = tonumber(f[11]),
  }
  local whole = m.epoch and m.revision and m.asOf and m.expires and m.ttl and m.digest and m.replid and m.count
    and m.logBytes and m.oldest
  if not whole or redis.call('HLEN', RECORDS) ~= m.count or redis.call('ZCARD', ORDER) ~= m.count then
    if redis.call('EXISTS', META, RECORDS, ORDER, LOG) > 0 then
      finish('lost')
    end
    return nil, 'lost'
  end
  if NOW >= m.expires then
    finish('expired')
    return nil, 'expired'
  end
  local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  if replid ~= m.replid then
    redis.call('UNLINK', LOG)
    m.epoch, m.revision, m.asOf, m.replid = ARGV[1], 1, math.max(NOW, m.asOf), replid
    m.logBytes, m.oldest, m.digest = 0, m.asOf, '' -- what names the old epoch is no repeat
    redis.call('HSET', META, 'epoch', m.epoch, 'revision', '1', 'asOf', text(m.asOf), 'replid', replid,
      'digest', '', 'logBytes', '0', 'oldest', text(m.asOf))
    tell('renewed ' .. m.epoch .. ' 1 ' .. text(m.asOf) .. '\n')
  end
  return m
end
