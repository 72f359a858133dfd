-- capture: bind the session, refuse a resend, append the turn to the intake stream; all or nothing.
-- ARGV: tenant, session name, seen tail, operator, agent, session, data
-- Returns {'ok', entry id}; {'seen', entry id of the first}; {'bound', operator, agent} = the session's own.
local tenant, name, seen_tail = ARGV[1], ARGV[2], ARGV[3]
local operator, agent, session_id, data = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local session = P .. 'session:' .. name
local bound = redis.call('HMGET', session, 'operator', 'agent')
if bound[1] and (bound[1] ~= operator or bound[2] ~= agent) then return {'bound', bound[1], bound[2]} end
local first = redis.call('GET', P .. 'seen:' .. seen_tail)
if first then return {'seen', first} end
if not bound[1] then
  redis.call('HSET', session, 'operator', operator, 'agent', agent, 'session', session_id)
  redis.call('PEXPIRE', session, SESSION_MS)
end
local id = redis.call('XADD', P .. 'intake:' .. tenant, '*', 'kind', 'turn', 'data', data)
redis.call('SET', P .. 'seen:' .. seen_tail, id, 'PX', SEEN_MS)
return {'ok', id}
