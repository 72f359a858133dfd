-- sweep: free expired leases and find the groups whose doorbell must be rung (again).
-- ARGV: lane, grace (ms), most groups
-- Returns {leases freed, group …}: groups due for longer than the grace with no doorbell under way.
-- Never more than could be heard: doorbells that no worker takes would else pile up, sweep after sweep.
local lane, grace, most = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ready, leased, now = P .. 'ready:' .. lane, P .. 'leased:' .. lane, now_ms()
local expired = redis.call('ZRANGEBYSCORE', leased, 0, whole(now), 'LIMIT', 0, most)
for _, group in ipairs(expired) do
  redis.call('ZREM', leased, group)
  redis.call('ZADD', ready, 'NX', whole(now - grace), group)
end
local answer = {#expired}
local room = redis.call('ZCOUNT', ready, 0, whole(now)) - redis.call('LLEN', P .. 'dramatiq:' .. lane)
for _, group in ipairs(redis.call('ZRANGEBYSCORE', ready, 0, whole(now - grace), 'LIMIT', 0, most)) do
  if #answer > room then break end
  if ring(lane_keys(lane, group)) then answer[#answer + 1] = group end
end
return answer
