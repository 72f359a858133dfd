-- capture: for each of many turns bind its session, refuse a resend, append it to the intake stream: all or
-- nothing for each, in their order. A resend is answered also while the way in is closed. Once a turn is refused
-- for now, so are the later ones of its session, so that their order holds when they are sent again.
-- What is ingested is one entry as well, which the router makes turns of.
-- ARGV: intake limit (entries), backlog limit (items), heads (JSON list, for each turn: [tenant, session name,
-- [[seen tail, turn id where that is a place's, else '']], operator, agent, session, [home groups], kind]), and
-- then the data of each turn
-- Returns for each turn {'ok', entry id}; {'seen', entry id of the first}; {'bound', operator, agent} = the
-- session's own; {'full', 'closed', why}; {'full', 'memory', error}; {'full', 'intake' or 'backlog', how much
-- waits}; {'failed', error}.
local intake_limit, backlog_limit, heads = tonumber(ARGV[1]), tonumber(ARGV[2]), cjson.decode(ARGV[3])
local closed = redis.call('GET', P .. 'closed')
local entries, items, refused = {}, {}, {}

local function full(intake, groups)
  if closed then return {'full', 'closed', closed} end
  entries[intake] = entries[intake] or redis.call('XLEN', intake)
  if entries[intake] >= intake_limit then return {'full', 'intake', tostring(entries[intake])} end
  for _, group in ipairs(groups) do
    items[group] = items[group] or backlog_of(group, backlog_limit)
    if items[group] >= backlog_limit then return {'full', 'backlog', tostring(items[group])} end
  end
end

local function admit(head, data)
  local tenant, name, marks, operator, agent, groups = head[1], head[2], head[3], head[4], head[5], head[7]
  local intake, session = P .. 'intake:' .. tenant, P .. 'session:' .. name
  local bound = redis.call('HMGET', session, 'operator', 'agent')
  if bound[1] and (bound[1] ~= operator or bound[2] ~= agent) then return {'bound', bound[1], bound[2]} end
  local first = taken_of(marks)
  if first then return {'seen', first} end
  local refusal = refused[name] or full(intake, groups)
  if not refusal then
    -- The first write of all: at the memory limit it is refused, and nothing after it ever is.
    local id = redis.pcall('XADD', intake, '*', 'kind', head[8], 'data', data)
    if type(id) == 'table' then
      local memory = string.find(id.err, 'OOM', 1, true)
      refusal = memory and {'full', 'memory', id.err} or {'failed', id.err}
    else
      entries[intake] = entries[intake] + 1
      for _, mark in ipairs(marks) do take_for(id, mark[1], mark[2]) end
      if not bound[1] then
        redis.call('HSET', session, 'operator', operator, 'agent', agent, 'session', head[6])
        redis.call('PEXPIRE', session, SESSION_MS)
      end
      return {'ok', id}
    end
  end
  refused[name] = refusal
  return refusal
end

local answers = {}
for at, head in ipairs(heads) do
  local done, answer = pcall(admit, head, ARGV[at + 3])
  -- What fails has failed at a read, before its first write: a key of another type.
  answers[at] = done and answer or {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
end
return answers
