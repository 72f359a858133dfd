-- flush: check the session's binding and append a flush to the intake stream, also at the memory limit.
-- ARGV: tenant, session name, operator ('' = not checked), data
-- Returns {'ok', entry id}; {'bound', operator} = the session's own, another one.
local tenant, name, operator, data = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local bound = redis.call('HGET', P .. 'session:' .. name, 'operator')
if operator ~= '' and bound and bound ~= operator then return {'bound', bound} end
return {'ok', redis.call('XADD', P .. 'intake:' .. tenant, '*', 'kind', 'flush', 'data', data)}
