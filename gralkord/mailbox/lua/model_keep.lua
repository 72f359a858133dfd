-- model_keep: a call is still under way: it keeps its place among the calls at once, and is still the one that tries.
-- ARGV: endpoint, id of the call, lease of a place (ms), whether it needs a place (1/0)
-- Returns 1. A place that was given away meanwhile is taken again: the call is under way, whoever else is.
local name, id, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local k, now = model_keys(name), now_ms()
if ARGV[4] == '1' then
  redis.call('ZADD', k.line, 'NX', 0, id)
  redis.call('ZADD', k.places, whole(now + lease), id)
  redis.call('PEXPIRE', k.line, lease)
  redis.call('PEXPIRE', k.places, lease)
end
if redis.call('HGET', k.breaker, 'probe') == id then redis.call('HSET', k.breaker, 'until', whole(now + PROBE_MS)) end
return 1
