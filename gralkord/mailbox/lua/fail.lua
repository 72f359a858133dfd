-- fail: give the lease back; the item waits for its next attempt, or goes to the dead letters.
-- ARGV: lane, group, epoch, item id, verdict (wait|count|bury), delay (ms), most failures, reason, detail,
-- what a model wrote that could not be used (kept with a dead letter only) or nothing
-- Returns -1 = the lease is lost, nothing changed; 1 = dead-lettered; 0 = it waits.
local lane, group, epoch, id, verdict = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local delay, most, reason, detail = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9]
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return -1 end
redis.call('HDEL', k.meta, 'crashes') -- it has ended by itself
local failures = 0
if verdict == 'count' then failures = redis.call('HINCRBY', k.meta, 'failures', 1) end
if verdict == 'bury' or failures >= most then
  local item = take(k, id)
  if item then bury(lane, group, item, reason, detail, math.max(failures, 1), ARGV[10]) end
  forget_head(k)
  give_back(k, group, 0)
  return 1
end
redis.call('HSET', k.meta, 'reason', reason, 'detail', detail, 'failed_ms', whole(now_ms()))
give_back(k, group, delay)
return 0
