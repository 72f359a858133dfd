-- more: take further items under a lease that is still held.
-- ARGV: lane, group, epoch, most items
-- Returns {0} = the lease is lost; else {1, item …}.
-- What the last holder had taken stands in the run list behind what this one was given: it comes before
-- what waits. While a bad item is being looked for (see acquire) there is no more until the head is done.
local lane, group, epoch, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return {0} end
redis.call('DEL', k.bell)
local meta = redis.call('HMGET', k.meta, 'given', 'crashes', 'failures')
local given = tonumber(meta[1] or '0')
if given > 0 and (tonumber(meta[2] or '0') > 2 or tonumber(meta[3] or '0') > 0) then return {1} end
for _ = redis.call('LLEN', k.run) + 1, given + most do
  if not redis.call('LMOVE', k.box, k.run, 'LEFT', 'RIGHT') then break end
end
local items = redis.call('LRANGE', k.run, given, given + most - 1)
if #items > 0 then redis.call('HSET', k.meta, 'given', given + #items) end
return {1, unpack(items)}
