-- model_answered: the model has answered: give the call's place back, settle its tokens, ease the pace, end the outage.
-- ARGV: endpoint, id of the call, start of its turn (ms; 0 = none), tokens more than it was counted for, announced
-- limits (see learn): calls a minute, of them left, tokens a minute, of them left; whether the understand lane waits
-- for such endpoints (1/0); others of that kind in use …
-- Another endpoint's outage is over only if that is not in use any more. Returns 1 = the outage ended; else 0.
local name, id, start = ARGV[1], ARGV[2], tonumber(ARGV[3])
local k, now = model_keys(name), now_ms()
leave(k, id)
if start > 0 then count(k, start, 0, tonumber(ARGV[4])) end
learn(k, now, tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]))
redis.call('DEL', k.breaker)
local known = redis.call('HMGET', k.pace, 'gap', 'limited', 'answered')
if known[1] and start >= tonumber(known[2]) then
  redis.call('HSET', k.pace, 'gap', math.min(tonumber(known[1]), LONGEST_GAP_MS))
  redis.call('HDEL', k.pace, 'alone')
  if not known[3] then redis.call('HSET', k.pace, 'answered', whole(now)) end
end
local out = redis.call('HGET', P .. 'model:outage', 'endpoint')
if not out or ARGV[9] ~= '1' then return 0 end
for at = 10, #ARGV do
  if ARGV[at] == out then return 0 end
end
redis.call('DEL', P .. 'model:outage')
return 1
