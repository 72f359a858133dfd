-- request: put work from outside the intake stream at the tail of a group's understand mailbox, with a flush
-- record that tells when it is done. To send the same one again changes nothing.
-- ARGV: '<tenant>:<request id>', group, item id suffix, body (JSON, beginning with '{'), backlog limit (items)
-- Returns {'ok', 1 = ring, else 0}; {'closed', why}; {'backlog', items that wait in the group's mailboxes and count}.
-- It is refused at the memory limit, as a capture is: the first write of all is then not made.
local name, group, suffix, body, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local record, open = P .. 'flush:' .. name, P .. 'open:understand:' .. name
if redis.call('EXISTS', record) == 1 then return {'ok', 0} end
local closed = redis.call('GET', P .. 'closed')
if closed then return {'closed', closed} end
local waits = backlog_of(group, limit)
if waits >= limit then return {'backlog', waits} end
local now = whole(now_ms())
redis.call('HSET', record, 'kind', 'request', 'group', group, 'routed', 1, 'routed_ms', now, 'index', 1, 'index_ms', now)
redis.call('PEXPIRE', record, KEPT_MS)
local id = whole(micros()) .. suffix
redis.call('SADD', open, group .. ' ' .. id)
redis.call('PEXPIRE', open, KEPT_MS)
local item = id .. ' {"flushes":' .. cjson.encode({name}) .. ',' .. string.sub(body, 2)
return {'ok', put('understand', group, item, false) and 1 or 0}
