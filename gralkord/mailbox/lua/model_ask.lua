-- model_ask: ask for a turn at a model endpoint; where nothing limits it, it costs some reads and writes nothing.
-- ARGV: endpoint, id of the call, start of the turn reserved before (ms; 0 = none), tokens, calls a minute, tokens a
-- minute, calls at once (0 = the settings do not limit it), lease of a place (ms), longest hold, longest wait (ms)
-- Returns {wait (ms), start (ms; 0 = none is reserved), kind, held (1 = tell of the outcome), endpoint that holds the
-- understand lane or ''}. Kinds: turn; line = others are before it, and wait is how many; far = too far off to be
-- waited for, nothing is reserved; out = it does not answer, and another call tries whether it is back;
-- probe = this call tries.
-- A place among the calls at once is taken first, in the order of arrival; who does not renew it loses it. A turn
-- reserved before holds, unless the provider has put everybody off since, or its time is long past. At a pace that is
-- to ease, turns are given away for the next moments only; who gets none (start 0) asks again after wait.
local LATE_MS, NEAR_MS, AGAIN_MS = 1000, 1500, 1000
local name, id, reserved, tokens = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local most_calls, most_used, at_once = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local lease, longest_hold, longest_wait = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local k, now = model_keys(name), now_ms()
local outage = redis.call('HGET', P .. 'model:outage', 'endpoint') or ''
local kind, held = 'turn', outage ~= '' and 1 or 0

local function least(chosen, announced)
  if not announced then return chosen end
  return chosen > 0 and math.min(chosen, announced) or announced
end

-- The first moment from start on at which the call fits; what is older then is taken out of the window.
local function when_free(w, start)
  while w.seconds[1] do
    local left = (w.seconds[1] + WINDOW_S) * 1000
    local full = (most_calls > 0 and w.calls >= most_calls)
      or (most_used > 0 and w.used > 0 and w.used + tokens > most_used)
    if left > start and not full then break end
    start = math.max(start, left)
    local gone = table.remove(w.seconds, 1)
    w.calls, w.used = w.calls - w.r[gone], w.used - (w.t[gone] or 0)
  end
  return start
end

local broken = redis.call('HMGET', k.breaker, 'until', 'probe')
if broken[1] then
  if broken[2] ~= id then
    if tonumber(broken[1]) > now then return {tonumber(broken[1]) - now, 0, 'out', 1, outage} end
    redis.call('HSET', k.breaker, 'until', whole(now + PROBE_MS), 'probe', id)
  end
  kind, held = 'probe', 1
end

if at_once > 0 then
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', k.places, 0, whole(now))) do leave(k, gone) end
  redis.call('ZADD', k.line, 'NX', whole(micros()), id)
  redis.call('ZADD', k.places, whole(now + lease), id)
  redis.call('PEXPIRE', k.line, lease)
  redis.call('PEXPIRE', k.places, lease)
  held = 1
  local place = redis.call('ZRANK', k.line, id)
  if place >= at_once then return {place - at_once, 0, 'line', 1, outage} end
end

local pace = redis.call('HMGET', k.pace, 'gap', 'until', 'last', 'answered')
local gap, put_off = 0, 0
if pace[1] then
  put_off = tonumber(pace[2])
  gap = gap_at(now, tonumber(pace[1]), put_off, tonumber(pace[4] or '0'))
  if gap == 0 and put_off <= now then
    redis.call('DEL', k.pace)
    pace = {}
  else
    held = 1
  end
end
local limited = most_calls > 0 or most_used > 0 or redis.call('EXISTS', k.window) == 1
if limited then held = 1 end

local late = reserved > 0 and reserved + LATE_MS < now
if reserved > 0 then
  if reserved >= put_off and not late then return {math.max(0, reserved - now), reserved, kind, held, outage} end
  count(k, reserved, -1, -tokens)
end
local free = math.max(now, put_off)
local start = free
if pace[3] and not late then start = math.max(start, tonumber(pace[3]) + math.floor(gap)) end
if start - free > NEAR_MS then return {math.max(put_off - now, 0) + AGAIN_MS, 0, kind, held, outage} end
if limited then
  local w = read_window(k, now)
  local last = late and 0 or w.other.last or 0
  most_calls, most_used = least(most_calls, w.other.requests), least(most_used, w.other.tokens)
  start = when_free(w, math.max(start, last))
  local spread = 0
  if most_calls > 0 and w.calls > 0 and 2 * w.calls >= most_calls then spread = 1000 * WINDOW_S / most_calls end
  if most_used > 0 and w.calls > 0 and 2 * (w.used + tokens) > most_used then
    spread = math.max(spread, 1000 * WINDOW_S * tokens / most_used)
  end
  start = when_free(w, math.max(start, last + math.floor(spread)))
end
if put_off - now > longest_hold or start - now > longest_wait then return {start - now, 0, 'far', held, outage} end
if limited then
  count(k, start, 1, tokens)
  redis.call('HSET', k.window, 'last', whole(start))
  local kept = start - now + 2 * 1000 * WINDOW_S
  if redis.call('PTTL', k.window) < kept then redis.call('PEXPIRE', k.window, whole(kept)) end
end
if pace[1] then redis.call('HSET', k.pace, 'last', whole(math.max(start, tonumber(pace[3] or '0')))) end
return {start - now, start, kind, held, outage}
