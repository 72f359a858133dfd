-- renew: prolong a lease.
-- ARGV: lane, group, epoch, lease (ms)
-- Returns 1 = prolonged; 0 = lost, stop the work.
local lane, group, epoch, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return 0 end
local now = now_ms()
redis.call('ZADD', k.leased, whole(now + lease_ms), group)
redis.call('HSET', k.meta, 'seen', whole(now))
return 1
