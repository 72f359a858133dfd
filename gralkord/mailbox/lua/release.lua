-- release: give the lease back unfinished, without counting a crash.
-- ARGV: lane, group, epoch
-- Returns -1 = the lease is lost; else 0. It rings for nobody: who stops has no time for that, the sweep has.
local lane, group, epoch = ARGV[1], ARGV[2], ARGV[3]
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return -1 end
redis.call('HINCRBY', k.meta, 'crashes', -1)
give_back(k, group, 0)
return 0
