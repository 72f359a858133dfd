-- sweep: free expired leases and find the groups whose doorbell must be rung (again).
-- ARGV: lane, most groups
-- Returns {leases freed, ms until the next group is due or -1, group …}: due groups with no doorbell under
-- way, because they have waited for their time or their doorbell was lost.
-- Never more than could be heard: doorbells that no worker takes would else pile up, sweep after sweep.
-- While a model is out nobody is rung for in the understand lane; after its time one group is, for the probe.
-- Groups whose budget is spent are put off together, but for one of each account, which tries (see acquire).
local MOST_LOOKED_AT = 500
local lane, most = ARGV[1], ARGV[2]
local ready, leased, now = P .. 'ready:' .. lane, P .. 'leased:' .. lane, now_ms()
local expired = redis.call('ZRANGEBYSCORE', leased, 0, whole(now), 'LIMIT', 0, most)
for _, group in ipairs(expired) do
  redis.call('ZREM', leased, group)
  redis.call('ZADD', ready, 'NX', whole(now), group)
end
local next_due = redis.call('ZRANGEBYSCORE', ready, '(' .. whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local answer = {#expired, next_due[2] and tonumber(next_due[2]) - now or -1}
local held = lane == 'understand' and redis.call('HGET', P .. 'model:outage', 'until')
if held and tonumber(held) > now then return {#expired, tonumber(held) - now} end
if held then most = 1 end

-- The due groups to ring for.
local function to_ring()
  local budgets = lane == 'understand' and redis.call('EXISTS', budget_key(now)) == 1
  local due = redis.call('ZRANGEBYSCORE', ready, 0, whole(now), 'LIMIT', 0, budgets and MOST_LOOKED_AT or most)
  if not budgets then return due end
  local groups, put_off = {}, {}
  for _, group in ipairs(due) do
    local upto = asks_a_model(lane_keys(lane, group)) and budget_hold(group, now)
    if upto and upto > now then
      put_off[#put_off + 1] = whole(upto)
      put_off[#put_off + 1] = group
    else
      if upto then try_budget(group, now) end
      groups[#groups + 1] = group
    end
  end
  if #put_off > 0 then redis.call('ZADD', ready, 'XX', unpack(put_off)) end
  return groups
end

local groups = to_ring()
local room = redis.call('ZCOUNT', ready, 0, whole(now)) - redis.call('LLEN', P .. 'dramatiq:' .. lane)
for at, group in ipairs(groups) do
  if #answer - 1 > room or at > tonumber(most) then break end
  if ring(lane_keys(lane, group)) then answer[#answer + 1] = group end
end
return answer
