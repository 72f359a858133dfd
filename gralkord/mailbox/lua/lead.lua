-- lead: become the router, or stay it.
-- ARGV: owner, lease (ms; 0 = give it up)
-- Returns the epoch of the lease, or '' when another process is the router.
local owner, lease = ARGV[1], tonumber(ARGV[2])
local router = redis.call('HMGET', P .. 'router', 'owner', 'epoch', 'expires')
local now = now_ms()
local mine = router[1] == owner
if router[1] and not mine and tonumber(router[3]) > now then return '' end
local epoch = mine and tonumber(router[3]) > now and router[2] or next_epoch()
redis.call('HSET', P .. 'router', 'owner', owner, 'epoch', epoch, 'expires', whole(now + lease))
return epoch
