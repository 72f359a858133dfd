-- flush_due: flush the sessions that have been idle long enough, or all of them.
-- ARGV: router epoch, all (1/0), most sessions, understand (1/0), limits (JSON)
-- Returns {-1} = not the router any more; else {sessions flushed, JSON list of {lane, group} to ring}.
local epoch, all, most = ARGV[1], ARGV[2] == '1', ARGV[3]
local understand, limits = ARGV[4] == '1', cjson.decode(ARGV[5])
local router = redis.call('HMGET', P .. 'router', 'epoch', 'expires')
if router[1] ~= epoch or tonumber(router[2]) < now_ms() then return {-1} end
local until_ms = all and '+inf' or whole(now_ms())
local names = redis.call('ZRANGEBYSCORE', P .. 'idle', '-inf', until_ms, 'LIMIT', 0, most)
local rings = {}
for _, name in ipairs(names) do flush_session(name, '', understand, limits, rings) end
return {#names, cjson.encode(rings)}
