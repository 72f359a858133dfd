-- route: take the head of an intake stream apart: dedupe, bind, number, append to mailboxes and buffers.
-- ARGV: router epoch, tenant, plan (JSON: the steps for the stream's first entries, in order), version of the
-- erasures it knows of
-- Returns {-1} = not the router any more, {-2} = the entries are not the head or there are other erasures by now:
-- nothing changed; else {steps taken, JSON list of {lane, group} to ring}.
-- A step: {id, act = turn|flush|ingest|dead|erased, …}; see gralkord/intake/plan.py, which makes them.
local epoch, tenant, plan = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local router = redis.call('HMGET', P .. 'router', 'epoch', 'expires')
if router[1] ~= epoch or tonumber(router[2]) < now_ms() then return {-1} end
local intake = P .. 'intake:' .. tenant
local head = redis.call('XRANGE', intake, '-', '+', 'COUNT', 1)
if #head == 0 or head[1][1] ~= plan[1].id then return {-2} end
if (redis.call('HGET', P .. 'erased:' .. tenant, 'version') or '') ~= (ARGV[4] or '') then return {-2} end

local AHEAD_MS = 24 * 3600 * 1000
local rings = {}

-- The whole entry, as it was written, for a dead letter; and how long its fields are.
local function raw_of(id)
  local entry = redis.call('XRANGE', intake, id, id)[1]
  local fields, sizes = {}, {}
  for at = 1, entry and #entry[2] or 0, 2 do
    local name, value = entry[2][at], entry[2][at + 1]
    fields[#fields + 1] = name .. '=' .. value -- as bytes: it may not even be UTF-8
    sizes[#sizes + 1] = #name .. ',' .. #value
  end
  return {text = id .. ' ' .. table.concat(fields, '\n'), sizes = table.concat(sizes, ',')}
end

local function keep_job(id, job) note_job(tenant, id, job) end

local function dead(id, raw, reason, detail, marks)
  for _, mark in ipairs(marks or {}) do -- so that it is taken when it comes again, or is retried
    if taken_by(mark[1]) == id then redis.call('DEL', P .. 'seen:' .. mark[1]) end
  end
  keep_job(id, cjson.encode({'dead', write_off('intake', tenant, raw.text, reason, detail, 1, raw.sizes)}))
end

local function conflict(step)
  if step.act ~= 'turn' and step.act ~= 'ingest' then return nil end
  local bound = redis.call('HMGET', P .. 'session:' .. step.name, 'operator', 'agent')
  if not bound[1] or (bound[1] == step.operator and bound[2] == step.agent) then return nil end
  return 'session ' .. step.session .. ' is bound to operator ' .. bound[1] .. ' and agent ' .. bound[2]
    .. ', the turn names operator ' .. step.operator .. ' and agent ' .. step.agent
end

local function earlier(one, other)
  local ms, number = string.match(one, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other, '^(%d+)-(%d+)$')
  if tonumber(ms) ~= tonumber(other_ms) then return tonumber(ms) < tonumber(other_ms) end
  return tonumber(number) < tonumber(other_number)
end

-- A place may have been taken by a later turn, which is still to be routed.
local function take_now(id, seen, place)
  local first = taken_by(seen)
  if not first or earlier(first, id) then take_for(id, seen, place) end
end

local function known(step)
  local marks = step.marks or {}
  local first = taken_of(marks)
  if first and first ~= step.id then -- else its own capture has set it already
    keep_job(step.id, cjson.encode({'seen', first}))
    return true
  end
  for _, mark in ipairs(marks) do take_now(step.id, mark[1], mark[2]) end
  return false
end

-- The names in a list that commas part, and those of more that it lacks.
local function joined(list, more)
  list = list or ''
  for _, name in ipairs(more) do
    if not string.find(',' .. list .. ',', ',' .. name .. ',', 1, true) then
      list = list == '' and name or list .. ',' .. name
    end
  end
  return list
end

-- part: of what is ingested, whose one flush takes all of it.
local function turn(step, part)
  if known(step) then return end
  keep_job(step.id, step.job)
  local session = P .. 'session:' .. step.name
  local last = redis.call('HMGET', session, 'ordinal', 'bytes', 'groups', 'shared')
  local ordinal = math.max(tonumber(last[1] or '0') + 1, micros())
  for _, item in ipairs(step.items) do
    local group, body = item[1], item[2]
    local placed = step.id .. ' {"ordinal":' .. whole(ordinal) .. ',' .. string.sub(body, 2)
    if put('index', group, placed, false) then rings[#rings + 1] = {'index', group} end
  end
  local groups, shared = joined(last[3], step.groups), joined(last[4], step.shared)
  local bytes = tonumber(last[2] or '0') + step.bytes
  redis.call('HSET', session, 'operator', step.operator, 'agent', step.agent, 'session', step.session,
    'ordinal', whole(ordinal + step.messages), 'bytes', bytes, 'groups', groups, 'shared', shared)
  redis.call('PERSIST', session)
  local buffered = redis.call('RPUSH', P .. 'buffer:' .. step.name, step.buffered)
  if part then return end
  if buffered >= step.flush_turns or bytes >= step.flush_bytes then
    flush_session(step.name, '', step.understand, step.limits, rings)
  else
    local due = step.idle_ms > 0 and whole(now_ms() + step.idle_ms) or '+inf'
    redis.call('ZADD', P .. 'idle', due, step.name)
  end
end

-- Each turn of what is ingested has an id of its own, made of the entry's; it is known as a whole, or not at all.
local function ingest(step)
  if known(step) then return false end
  for _, each in ipairs(step.turns) do
    if each.place then take_now(step.id, each.place[1], each.place[2]) end
    turn(each, true)
  end
  return true
end

local function flush(step)
  local id = tenant .. ':' .. step.id
  local turns = flush_session(step.name, id, step.understand, step.limits, rings)
  local record = P .. 'flush:' .. id
  redis.call('HSET', record, 'session', step.session, 'turns', turns, 'routed', 1,
    'routed_ms', whole(now_ms()))
  redis.call('PEXPIRE', record, KEPT_MS)
  if not step.understand then redis.call('HSET', record, 'reason', step.reason) end
  for _, lane in ipairs({'index', 'understand'}) do
    local open = P .. 'open:' .. lane .. ':' .. id
    if redis.call('PEXPIRE', open, KEPT_MS) == 0 then redis.call('HSET', record, lane, 1) end
  end
  redis.call('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'flush', id, 'lane', 'intake')
end

-- Captured before an erasure took what it belongs to; sent again it is known, as if it had been routed.
local function erased(step)
  if not known(step) then keep_job(step.id, cjson.encode({'erased'})) end
end

local taken = 0
for _, step in ipairs(plan) do
  local clash = conflict(step)
  local raw = (clash or step.act == 'dead') and raw_of(step.id)
  if redis.call('XDEL', intake, step.id) == 1 then
    taken = taken + 1
    if clash then dead(step.id, raw, 'session_conflict', clash, step.marks)
    elseif step.act == 'erased' then erased(step)
    elseif step.act == 'turn' then turn(step)
    elseif step.act == 'ingest' then if ingest(step) then flush(step) end
    elseif step.act == 'flush' then flush(step)
    else dead(step.id, raw, step.reason, step.detail, step.marks) end
  end
end
-- Who names an id of its own may name the last one there is; then nothing could be appended ever again. Once
-- the stream is empty it begins anew at the time, which is later than every id but the named ones.
if redis.call('EXISTS', intake) == 1 and redis.call('XLEN', intake) == 0
  and tonumber(string.match(plan[#plan].id, '^%d+')) > now_ms() + AHEAD_MS then
  redis.call('DEL', intake)
end
return {taken, cjson.encode(rings)}
