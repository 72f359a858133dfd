-- expunge: take items out of a mailbox for good, or write them anew with less in them; under a lease.
-- ARGV: lane, group, epoch, list (box|run), then for each item: its place from 0, its id, the new item ('' = none)
-- Returns how many were taken out; -1 = the lease is lost, -2 = an item does not stand at its place: nothing
-- changed. For the flushes that wait for it, an item that was taken out is done.
local lane, group, epoch = ARGV[1], ARGV[2], ARGV[3]
local k = lane_keys(lane, group)
local list, GONE = k[ARGV[4]], '\0gone'
if not holds(k, group, epoch) then return -1 end
for at = 5, #ARGV, 3 do
  local item = redis.call('LINDEX', list, ARGV[at])
  if not item or item_id(item) ~= ARGV[at + 1] then return -2 end
end
local taken = 0
for at = 5, #ARGV, 3 do
  local place, left = ARGV[at], ARGV[at + 2]
  if left == '' then
    local item = redis.call('LINDEX', list, place)
    if ARGV[4] == 'run' and tonumber(place) == 0 then forget_head(k) end
    redis.call('LSET', list, place, GONE)
    redis.call('HINCRBY', P .. 'depth', lane, -1)
    settle(lane, group, item)
    taken = taken + 1
  else
    redis.call('LSET', list, place, left)
  end
end
redis.call('LREM', list, 0, GONE)
return taken
