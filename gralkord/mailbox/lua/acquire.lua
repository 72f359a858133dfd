-- acquire: lease a group that is ready and due; every lease has a new epoch.
-- ARGV: lane, group, lease (ms), most items, most crashes, and for the understand lane the budgets of a day: of the
-- tenant nano-dollars and tokens, of the operator nano-dollars and tokens; -1 = no limit
-- Returns {} = nothing to do; {epoch, crashes, failures, item …}. The items stand in the run list until
-- they are committed, so whoever comes after a crash gets the same ones first.
-- After two crashes or a failure only the head is given, so that one bad item shows itself; an item that
-- has crashed its holder the given number of times is dead-lettered here.
-- While a model is out (see model_failed) nothing of the understand lane is given but what asks no model: barriers
-- and requests; after its time one item is, as a probe.
-- Nor while a budget of the group's accounts is spent: the group waits ten seconds or more, as others of the account do
-- when the sweep meets them, so that it goes on soon after a budget was raised, and when the day is over.
local lane, group, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local most, most_crashes = tonumber(ARGV[4]), tonumber(ARGV[5])
local PROBE_MS = 10000

local BUDGET_MS = 10000

-- Micro-dollars and tokens that an account has used up on a day.
local function used_by(tenant, day, field)
  local usd, tokens = string.match(redis.call('HGET', P .. 'spent:' .. tenant .. ':' .. day, field) or '', '^(%d+) (%d+)$')
  return tonumber(usd or '0'), tonumber(tokens or '0')
end

local function may_spend(k, now)
  if not asks_a_model(k) then return true end
  local names, fields = accounts_of(group)
  local notes, day = budget_key(now), math.floor(now / DAY_MS)
  -- Of very many groups each waits longer, so that the sweep can look at them all meanwhile.
  local wait = math.max(BUDGET_MS, 2 * redis.call('ZCARD', k.ready))
  local upto, may = math.min(now + wait, (day + 1) * DAY_MS), true
  for at, name in ipairs(names) do
    local usd, tokens = used_by(names[1], whole(day), fields[at])
    local most_usd, most_tokens = tonumber(ARGV[4 + 2 * at] or '-1'), tonumber(ARGV[5 + 2 * at] or '-1')
    if (most_usd >= 0 and usd >= most_usd) or (most_tokens >= 0 and tokens >= most_tokens) then
      local since = string.match(redis.call('HGET', notes, name) or '', ' (%d+)$') or whole(now)
      redis.call('HSET', notes, name, whole(upto) .. ' ' .. since)
      redis.call('PEXPIREAT', notes, whole((day + 2) * DAY_MS))
      may = false
    else
      redis.call('HDEL', notes, name)
    end
  end
  if not may then redis.call('ZADD', k.ready, 'XX', whole(upto), group) end
  return may
end

local function may_ask_a_model(k, now)
  local held = redis.call('HGET', P .. 'model:outage', 'until')
  if not held then return true end
  local head = redis.call('LINDEX', k.run, 0) or redis.call('LINDEX', k.box, 0)
  if not (head and names_a_model(head)) then return true end
  if tonumber(held) > now then return false end
  redis.call('HSET', P .. 'model:outage', 'until', whole(now + PROBE_MS), 'probe', 1)
  local breaker = P .. 'model:breaker:' .. (redis.call('HGET', P .. 'model:outage', 'endpoint') or '')
  if redis.call('EXISTS', breaker) == 1 then -- its calls are to reach the model
    redis.call('HSET', breaker, 'until', 0)
    redis.call('HDEL', breaker, 'probe')
  end
  return true
end

local k = lane_keys(lane, group)
redis.call('DEL', k.bell) -- the doorbell has arrived, whatever comes of it
local now = now_ms()
local due = redis.call('ZSCORE', k.ready, group)
if not due or tonumber(due) > now then return {} end
if lane == 'understand' and not (may_spend(k, now) and may_ask_a_model(k, now)) then return {} end
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
