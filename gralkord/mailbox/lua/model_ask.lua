-- model_ask: reserve a turn at a model endpoint; with no hold it costs one read of each hash.
-- ARGV: endpoint, longest wait (ms), start of the turn reserved before (ms; 0 = none)
-- Returns {wait (ms), start (ms), paced (1/0), endpoint that is out or ''}. A wait beyond the longest reserves
-- nothing. A turn reserved before holds, unless the provider has put everybody off since.
local name, longest, reserved = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local pace, now = P .. 'model:pace:' .. name, now_ms()
local out = redis.call('HGET', P .. 'model:outage', 'endpoint') or ''
local known = redis.call('HMGET', pace, 'gap', 'until', 'next')
if not known[1] then return {0, now, 0, out} end
local held = tonumber(known[2])
if reserved > 0 and reserved >= held then return {math.max(0, reserved - now), reserved, 1, out} end
local start = math.max(now, held, tonumber(known[3] or '0'))
if start - now <= longest then redis.call('HSET', pace, 'next', whole(start + tonumber(known[1]))) end
return {start - now, start, 1, out}
