-- commit: drop finished items by their ids, add what follows from them, and keep or give back the lease.
-- ARGV: lane, group, epoch, keep the lease (1/0), number of ids, id …, then {lane, group, item} triples
-- Returns -1 = the lease is lost, nothing changed; 1 = given back and there is more, ring; else 0.
-- Follow-ups go to the front: what stands behind the parent must wait for its children as well.
local lane, group, epoch, keep, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', tonumber(ARGV[5])
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return -1 end
for at = #ARGV - 2, 6 + count, -3 do
  local target, item = ARGV[at + 1], ARGV[at + 2]
  for _, flush in ipairs(flushes_of(item)) do
    redis.call('SADD', P .. 'open:' .. ARGV[at] .. ':' .. flush, target .. ' ' .. item_id(item))
  end
  put(ARGV[at], target, item, true)
end
for at = 6, 5 + count do
  local item = take(k, ARGV[at])
  if item then
    redis.call('HINCRBY', P .. 'depth', lane, -1)
    redis.call('HINCRBY', k.meta, 'given', -1)
    settle(lane, group, item)
  end
end
local excused = lane == 'understand' and tonumber(redis.call('HGET', k.meta, 'excused') or '0') or 0
if excused > 0 then redis.call('HSET', k.meta, 'excused', math.max(0, excused - count)) end
forget_head(k)
if keep then
  redis.call('HSET', k.meta, 'crashes', 1)
  return 0
end
return give_back(k, group, 0) and ring(k) and 1 or 0
