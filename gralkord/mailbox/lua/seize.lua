-- seize: take the lease of a group's lane, from whoever holds it, and whether there is work or not.
-- ARGV: lane, group, lease (ms)
-- Returns the new epoch. What the last holder had taken stays in the run list, and its crash is not counted; the
-- lease is renewed and released like any other.
local lane, group, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local k = lane_keys(lane, group)
if not redis.call('ZSCORE', k.leased, group) then
  redis.call('HINCRBY', k.meta, 'crashes', 1) -- a release takes one back
end
local epoch = next_epoch()
redis.call('ZREM', k.ready, group)
redis.call('HDEL', k.meta, 'seen')
redis.call('HSET', k.meta, 'epoch', epoch, 'given', 0)
redis.call('ZADD', k.leased, whole(now_ms() + lease_ms), group)
return epoch
