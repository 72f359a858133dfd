-- model_answered: the model has answered while there was a hold: ease the pace, end the outage.
-- ARGV: endpoint, other endpoints in use …
-- Another endpoint's outage is over only if that is not in use any more. Returns 1 = the outage ended; else 0.
local GAP_EASES, GAP_OVER_MS = 0.9, 10
local pace = P .. 'model:pace:' .. ARGV[1]
local known = redis.call('HMGET', pace, 'gap', 'until')
if known[1] then
  local gap, over = tonumber(known[1]) * GAP_EASES, tonumber(known[2]) <= now_ms()
  if gap < GAP_OVER_MS and over then
    redis.call('DEL', pace)
  else
    redis.call('HSET', pace, 'gap', math.max(gap, GAP_OVER_MS))
  end
end
local out = redis.call('HGET', P .. 'model:outage', 'endpoint')
if not out then return 0 end
for at = 2, #ARGV do
  if ARGV[at] == out then return 0 end
end
redis.call('DEL', P .. 'model:outage')
return 1
