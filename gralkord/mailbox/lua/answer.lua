-- answer: keep what a request is answered with; the first answer stays, for what repeats the work finds it done.
-- ARGV: lane, group, epoch, '<tenant>:<request id>', answer (JSON)
-- Returns 1 = there is an answer now; 0 = the lease is lost, nothing changed.
local lane, group, epoch, name, answer = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not holds(lane_keys(lane, group), group, epoch) then return 0 end
redis.call('SET', P .. 'result:' .. name, answer, 'NX', 'PX', KEPT_MS)
return 1
