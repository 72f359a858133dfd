-- erase_mark: open, renew, close or end an erasure. While it is open, what is captured of its scope is not
-- routed; once it is closed, what was captured up to then never will be. One erasure a tenant at a time.
-- ARGV: tenant, erasure id, what (open|renew|close|end), scope (JSON; to open), how long it holds unrenewed (ms)
-- Returns '' = another erasure is under way (open) or this one was overtaken; else the id of the last entry of
-- the intake stream. Each change gives the marks another version, which route checks.
-- A mark: last entry id covered, time (ms) up to which entries are covered too, scope. Those that no entry of
-- the stream can fall under any more go when another is opened, all of them 7 days after the last change.
local tenant, id, what, scope, lasts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local marks, lock, intake = P .. 'erased:' .. tenant, P .. 'erasing:' .. tenant, P .. 'intake:' .. tenant
local holder = redis.call('GET', lock)
if holder ~= id and (holder or what ~= 'open') then return '' end
local last = redis.call('XREVRANGE', intake, '+', '-', 'COUNT', 1)[1]
local cutoff, now = last and last[1] or '0-0', now_ms()
if what == 'end' then
  redis.call('DEL', lock)
  return cutoff
end

local function parts(mark) return string.match(mark, '^(%S+) (%S+) (.*)$') end

local function sweep()
  local all = redis.call('HGETALL', marks)
  for at = 1, #all, 2 do
    if all[at] ~= 'version' and all[at] ~= id then
      local upto, open = parts(all[at + 1])
      if tonumber(open) < now and #redis.call('XRANGE', intake, '-', upto, 'COUNT', 1) == 0 then
        redis.call('HDEL', marks, all[at])
      end
    end
  end
end

local known = redis.call('HGET', marks, id)
local upto, open, kept = '0-0', '1', scope
if known then upto, open, kept = parts(known) end
if what == 'open' then
  sweep()
  upto, open = cutoff, whole(now + lasts)
elseif what == 'renew' then
  if open ~= '0' then open = whole(now + lasts) end
else
  upto, open = cutoff, '0'
end
redis.call('SET', lock, id, 'PX', lasts)
redis.call('HSET', marks, id, upto .. ' ' .. open .. ' ' .. kept)
redis.call('HINCRBY', marks, 'version', 1)
redis.call('PEXPIRE', marks, KEPT_MS)
return cutoff
