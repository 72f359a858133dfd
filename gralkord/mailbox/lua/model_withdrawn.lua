-- model_withdrawn: nobody waits for a call any more: its place is the next one's, and so is its turn if it was not sent.
-- ARGV: endpoint, id of the call, start of its turn (ms; 0 = none), tokens it was counted for, whether it was sent (1/0)
-- What was sent stays counted, because the provider has counted it too. Returns 1.
local name, id, start = ARGV[1], ARGV[2], tonumber(ARGV[3])
local k = model_keys(name)
leave(k, id)
if start > 0 and ARGV[5] == '0' then count(k, start, -1, -tonumber(ARGV[4])) end
if redis.call('HGET', k.breaker, 'probe') == id then
  redis.call('HSET', k.breaker, 'until', 0)
  redis.call('HDEL', k.breaker, 'probe')
end
return 1
