-- release: give the lease back unfinished, without counting a crash.
-- ARGV: lane, group, epoch
-- Returns -1 = the lease is lost; else as give_back: 1 = ring.
local lane, group, epoch = ARGV[1], ARGV[2], ARGV[3]
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return -1 end
redis.call('HINCRBY', k.meta, 'crashes', -1)
return give_back(k, group, 0)
