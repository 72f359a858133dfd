-- model_limited: the provider asks for fewer requests: nobody asks before its time, then one after another.
-- ARGV: endpoint, id of the call, start of its turn (ms), tokens it was counted for, time the provider asks for (ms;
-- -1 = it names none), announced limits (see learn): calls a minute, of them left, tokens a minute, of them left
-- Of many calls that are refused together the first doubles the gap. A provider that refuses answers, so an outage
-- of it is over. The call stays counted, its tokens do not. Returns the gap (ms).
local name, id, start, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local k, now = model_keys(name), now_ms()
leave(k, id)
count(k, start, 0, -tonumber(ARGV[4]))
learn(k, now, tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]))
redis.call('DEL', k.breaker)
redis.call('HSETNX', k.pace, 'alone', whole(now))
local known = redis.call('HMGET', k.pace, 'gap', 'until', 'limited', 'alone', 'answered')
local gap, put_off = tonumber(known[1] or '0'), tonumber(known[2] or '0')
if not known[3] or start > tonumber(known[3]) then
  local most = math.max(LONGEST_GAP_MS, math.min((now - tonumber(known[4])) / 10, ALONE_GAP_MS))
  gap = math.min(math.max(2 * gap_at(now, gap, put_off, tonumber(known[5] or '0')), GAP_MS), most)
  redis.call('HSET', k.pace, 'gap', gap, 'limited', whole(now))
  redis.call('HDEL', k.pace, 'answered')
end
put_off = math.max(put_off, now + (wait >= 0 and wait or math.floor(gap)))
redis.call('HSET', k.pace, 'until', whole(put_off))
redis.call('HSETNX', k.pace, 'since', whole(now))
redis.call('PEXPIRE', k.pace, whole(put_off - now + LIMITS_MS))
if redis.call('HGET', P .. 'model:outage', 'endpoint') == name then redis.call('DEL', P .. 'model:outage') end
return math.floor(gap)
