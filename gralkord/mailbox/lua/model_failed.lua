-- model_failed: the model does not answer, or refuses key or model: leave it alone for a while, and hold the
-- understand lane where that cannot go on without it.
-- ARGV: endpoint, reason (model_outage|model_misconfigured), detail, least wait (ms), id of the call, start of its
-- turn (ms), tokens it was counted for, whether the lane waits for it (1/0)
-- Of many calls that fail together one counts: the first, and then each probe (see acquire, model_ask). What refuses a
-- key answers, so calls are only kept from what does not.
-- Returns the number of tries that have failed since the outage began; 0 = this one is not counted.
local LONGEST_TRY_MS = 30000
local name, reason, detail, least = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local id, start = ARGV[5], tonumber(ARGV[6])
local k, now = model_keys(name), now_ms()
local out = reason == 'model_outage'
leave(k, id)
if start > 0 then count(k, start, 0, -tonumber(ARGV[7])) end

local function wait_after(tries)
  return math.max(math.min(out and 500 * 2 ^ math.min(tries, 10) or LONGEST_TRY_MS, LONGEST_TRY_MS), least)
end

local counted = 0
if out then
  local known = redis.call('HMGET', k.breaker, 'tries', 'until', 'probe')
  local tries = tonumber(known[1] or '0')
  if not known[1] or known[3] == id or now >= tonumber(known[2]) then
    counted = tries + 1
    local wait = wait_after(counted)
    redis.call('HSET', k.breaker, 'tries', counted, 'until', whole(now + wait))
    redis.call('HDEL', k.breaker, 'probe')
    redis.call('PEXPIRE', k.breaker, whole(wait + LIMITS_MS))
  end
else
  redis.call('DEL', k.breaker)
end
if ARGV[8] ~= '1' then return counted end

local outage = P .. 'model:outage'
local known = redis.call('HMGET', outage, 'tries', 'until', 'probe')
local tries = tonumber(known[1] or '0')
if known[1] and not known[3] and now < tonumber(known[2]) then return 0 end
tries = tries + 1
redis.call('HSETNX', outage, 'since', whole(now))
redis.call('HSET', outage, 'endpoint', name, 'reason', reason, 'detail', detail, 'tries', tries,
  'until', whole(now + wait_after(tries)))
redis.call('HDEL', outage, 'probe')
return tries
