-- budget_held: whether a flush waits for items that no worker is given, because a budget is spent.
-- ARGV: '<tenant>:<flush>'
-- Returns 1 = it does; else 0. What is being worked on may still be done.
local now, groups = now_ms(), {}
for _, member in ipairs(redis.call('SMEMBERS', P .. 'open:understand:' .. ARGV[1])) do
  groups[string.match(member, '^%S+')] = true
end
for group in pairs(groups) do
  if budget_hold(group, now) and not redis.call('ZSCORE', P .. 'leased:understand', group) then return 1 end
end
return 0
