-- model_limited: the provider asks for fewer requests: nobody asks before its time, then one after another.
-- ARGV: endpoint, start of the refused call's turn (ms), time the provider asks for (ms; -1 = it names none)
-- Of many calls that are refused together the first doubles the gap. A provider that refuses answers, so an
-- outage is over. Returns the gap (ms).
local GAP_MS, LONGEST_GAP_MS, PACE_MS = 100, 10000, 600000
local name, start, wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local pace, now = P .. 'model:pace:' .. name, now_ms()
local known = redis.call('HMGET', pace, 'gap', 'until', 'limited')
local gap = tonumber(known[1] or '0')
if not known[3] or start > tonumber(known[3]) then
  gap = math.min(math.max(2 * gap, GAP_MS), LONGEST_GAP_MS)
  redis.call('HSET', pace, 'gap', gap, 'limited', whole(now))
end
local held = math.max(tonumber(known[2] or '0'), now + (wait >= 0 and wait or gap))
redis.call('HSET', pace, 'until', whole(held))
redis.call('HSETNX', pace, 'since', whole(now))
redis.call('PEXPIRE', pace, whole(held - now + PACE_MS))
if redis.call('HGET', P .. 'model:outage', 'endpoint') == name then redis.call('DEL', P .. 'model:outage') end
return math.floor(gap)
