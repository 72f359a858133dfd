-- acquire: lease a group that is ready and due; every lease has a new epoch.
-- ARGV: lane, group, lease (ms), most items, most crashes
-- Returns {} = nothing to do; {epoch, crashes, failures, item …}. The items stand in the run list until
-- they are committed, so whoever comes after a crash gets the same ones first.
-- After two crashes or a failure only the head is given, so that one bad item shows itself; an item that
-- has crashed its holder the given number of times is dead-lettered here.
-- While a model is out (see model_failed) nothing of the understand lane is given but what asks no model: barriers
-- and requests; after its time one item is, as a probe.
local lane, group, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local most, most_crashes = tonumber(ARGV[4]), tonumber(ARGV[5])
local PROBE_MS = 10000

local function may_ask_a_model(k, now)
  local held = redis.call('HGET', P .. 'model:outage', 'until')
  if not held then return true end
  local head = redis.call('LINDEX', k.run, 0) or redis.call('LINDEX', k.box, 0)
  if not head or not string.find(head, '"kind":"understand"', 1, true) then return true end
  if tonumber(held) > now then return false end
  redis.call('HSET', P .. 'model:outage', 'until', whole(now + PROBE_MS), 'probe', 1)
  return true
end

local k = lane_keys(lane, group)
redis.call('DEL', k.bell) -- the doorbell has arrived, whatever comes of it
local now = now_ms()
local due = redis.call('ZSCORE', k.ready, group)
if not due or tonumber(due) > now then return {} end
if lane == 'understand' and not may_ask_a_model(k, now) then return {} end
redis.call('ZREM', k.ready, group)

local crashes = tonumber(redis.call('HGET', k.meta, 'crashes') or '0')
if crashes >= most_crashes then
  local item = redis.call('LPOP', k.run)
  if item then
    local detail = 'its holder ended or lost its lease ' .. crashes .. ' times'
    bury(lane, group, item, 'crashed', detail, crashes)
  end
  forget_head(k)
  crashes = 0
end
local failures = tonumber(redis.call('HGET', k.meta, 'failures') or '0')
if crashes >= 2 or failures >= 1 then most = 1 end
for _ = redis.call('LLEN', k.run) + 1, most do
  if not redis.call('LMOVE', k.box, k.run, 'LEFT', 'RIGHT') then break end
end
local items = redis.call('LRANGE', k.run, 0, most - 1)
if #items == 0 then
  redis.call('DEL', k.meta)
  return {}
end
local epoch = next_epoch()
local seen = tonumber(redis.call('HGET', k.meta, 'seen') or '0')
if seen > 0 then -- the last holder never gave it back
  tally('takeovers')
  -- Until the sweep has freed it; how long it then waits for its turn is no matter of takeovers.
  local took = math.max(0, tonumber(due) - seen)
  local worst = tonumber(redis.call('HGET', P .. 'counters', 'worst_takeover_ms') or '0')
  redis.call('HSET', P .. 'counters', 'worst_takeover_ms', whole(math.max(worst, took)))
end
redis.call('HSET', k.meta, 'epoch', epoch, 'crashes', crashes + 1, 'given', #items, 'seen', whole(now))
redis.call('ZADD', k.leased, whole(now + lease_ms), group)
return {epoch, tostring(crashes), tostring(failures), unpack(items)}
