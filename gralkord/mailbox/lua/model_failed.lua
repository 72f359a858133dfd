-- model_failed: the model does not answer, or refuses key or model: hold the understand lane.
-- ARGV: endpoint, reason (model_outage|model_misconfigured), detail, least wait (ms)
-- Of many calls that fail together one counts: the first, and then each probe (see acquire).
-- Returns the number of tries that have failed since the outage began; 0 = this one is not counted.
local LONGEST_TRY_MS = 30000
local name, reason, detail, least = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local outage, now = P .. 'model:outage', now_ms()
local known = redis.call('HMGET', outage, 'tries', 'until', 'probe')
local tries = tonumber(known[1] or '0')
if known[1] and not known[3] and now < tonumber(known[2]) then return 0 end
tries = tries + 1
local wait = reason == 'model_outage' and 500 * 2 ^ math.min(tries, 10) or LONGEST_TRY_MS
redis.call('HSETNX', outage, 'since', whole(now))
redis.call('HSET', outage, 'endpoint', name, 'reason', reason, 'detail', detail, 'tries', tries,
  'until', whole(now + math.max(math.min(wait, LONGEST_TRY_MS), least)))
redis.call('HDEL', outage, 'probe')
return tries
