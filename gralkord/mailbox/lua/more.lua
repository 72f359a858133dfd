-- more: take further items under a lease that is still held.
-- ARGV: lane, group, epoch, most items
-- Returns {0} = the lease is lost; else {1, item …}.
local lane, group, epoch, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local k = lane_keys(lane, group)
if not holds(k, group, epoch) then return {0} end
redis.call('DEL', k.bell)
local items = {}
for _ = 1, most do
  local item = redis.call('LMOVE', k.box, k.run, 'LEFT', 'RIGHT')
  if not item then break end
  items[#items + 1] = item
end
return {1, unpack(items)}
