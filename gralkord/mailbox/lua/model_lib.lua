-- Shared by the scripts model_* and put before each of them, after lib. What the parts of an endpoint's state
-- mean is told in gralkord/providers/paces.py, which keeps the same for one process alone.
local WINDOW_S = 61
local LIMITS_MS = 600000 -- how long limits that a provider announced are believed, and a pace that nobody asks for kept
local GAP_MS, LONGEST_GAP_MS, ALONE_GAP_MS, GAP_OVER_MS, QUIET_MS, HALF_MS = 100, 1000, 30000, 10, 1000, 600
local PROBE_MS = 10000

local function model_keys(name)
  local m = P .. 'model:'
  return {pace = m .. 'pace:' .. name, window = m .. 'window:' .. name, line = m .. 'line:' .. name,
    places = m .. 'places:' .. name, breaker = m .. 'breaker:' .. name}
end

local function second_of(ms) return math.floor(ms / 1000) end

-- The gap (ms) between calls that holds now; 0 = nobody has to wait.
local function gap_at(now, gap, held, answered)
  local quiet = answered > 0 and now - math.max(answered, held) - QUIET_MS or 0
  gap = gap / 2 ^ math.min(math.max(quiet, 0) / HALF_MS, 60)
  return gap >= GAP_OVER_MS and gap or 0
end

-- A call is not under way any more, nor does it wait for a place.
local function leave(k, id)
  redis.call('ZREM', k.line, id)
  redis.call('ZREM', k.places, id)
end

-- Count a call in the second in which its turn begins; less than nothing corrects it.
local function count(k, start, requests, tokens)
  local second = whole(second_of(start))
  if requests <= 0 and redis.call('HEXISTS', k.window, 'r' .. second) == 0 then return end
  redis.call('HINCRBY', k.window, 'r' .. second, whole(requests))
  redis.call('HINCRBY', k.window, 't' .. second, whole(tokens))
end

-- What was asked within the last minute and will be: seconds in order, calls and tokens by second, sums, and the
-- other fields. What is older is forgotten.
local function read_window(k, now)
  local w = {seconds = {}, r = {}, t = {}, calls = 0, used = 0, other = {}}
  local raw, old = redis.call('HGETALL', k.window), {}
  for at = 1, #raw, 2 do
    local kind, second = string.match(raw[at], '^([rt])(%d+)$')
    second = tonumber(second)
    if not kind then
      w.other[raw[at]] = tonumber(raw[at + 1])
    elseif second + WINDOW_S <= second_of(now) then
      old[#old + 1] = raw[at]
    else
      if kind == 'r' then w.seconds[#w.seconds + 1] = second end
      w[kind][second] = tonumber(raw[at + 1])
      if kind == 'r' then w.calls = w.calls + w.r[second] else w.used = w.used + w.t[second] end
    end
  end
  for at = 1, #old, 100 do redis.call('HDEL', k.window, unpack(old, at, math.min(at + 99, #old))) end
  table.sort(w.seconds)
  return w
end

-- Note limits of a minute that a provider told, each with what is left of it; -1 = it did not. Where it has counted
-- more than we have, somebody else uses the same key.
local function learn(k, now, requests, requests_left, tokens, tokens_left)
  if requests <= 0 and tokens <= 0 then return end
  local w = read_window(k, now)
  local more_calls = requests > 0 and requests_left >= 0 and math.max(0, requests - requests_left - w.calls) or 0
  local more_used = tokens > 0 and tokens_left >= 0 and math.max(0, tokens - tokens_left - w.used) or 0
  if requests > 0 then redis.call('HSET', k.window, 'requests', whole(requests)) end
  if tokens > 0 then redis.call('HSET', k.window, 'tokens', whole(tokens)) end
  if more_calls + more_used > 0 then
    redis.call('HINCRBY', k.window, 'r' .. whole(second_of(now)), whole(more_calls))
    redis.call('HINCRBY', k.window, 't' .. whole(second_of(now)), whole(more_used))
  end
  redis.call('PEXPIRE', k.window, LIMITS_MS)
end

