-- job: what the queue knows of one receipt, as of one moment.
-- ARGV: tenant, entry id, most entries or items to look through, most bytes of them
-- Returns JSON: {} = nothing; {entry = {kind, operator, session, turn_id, before, exact}} = it waits in the intake
-- stream; {flush = {its record, open = {index, understand}}, outage}; {seen = id of the entry that it is the same as};
-- {dead = id, letter = {id, reason, detail, kind, operator, session, turn_id}}; {turn = [what the router kept], buffered, places = [{lane, group, …}], letter, outage}.
-- A place: before = items in front of it, exact = whether those are all; absent = it is not in the mailbox;
-- tries and the last failure of what is being worked on; dead = id of its dead letter.
local tenant, id, most, most_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local PAGE = 100

-- Why nothing of some groups is understood now: a model is out, or a budget is spent.
local function outage(groups)
  local held = redis.call('HMGET', P .. 'model:outage', 'reason', 'detail', 'since')
  if held[1] then return {reason = held[1], detail = held[2], since = held[3]} end
  for _, group in ipairs(groups) do
    local upto, since = budget_hold(group, now_ms())
    if upto then
      return {reason = 'budget_spent', detail = 'what may be spent today is spent', since = whole(since)}
    end
  end
end

-- The groups of items that a flush waits for.
local function open_groups(name)
  local groups = {}
  for _, member in ipairs(redis.call('SRANDMEMBER', P .. 'open:understand:' .. name, PAGE)) do
    groups[#groups + 1] = string.match(member, '^%S+')
  end
  return groups
end

-- What the fields of an entry say of it, added to what is known.
local function told(known, list)
  local fields = {}
  for at = 1, #list, 2 do fields[list[at]] = list[at + 1] end
  local readable, said = pcall(cjson.decode, fields.data or '')
  said = readable and type(said) == 'table' and said or {}
  known.kind = fields.kind
  for _, name in ipairs({'operator', 'session', 'turn_id'}) do
    if type(said[name]) == 'string' then known[name] = said[name] end
  end
  return known
end

-- How many entries stand before it: {number, whether those are all}.
local function entries_before(stream)
  local from, number, bytes = '-', 0, 0
  while number < most and bytes < most_bytes do
    local page = redis.call('XRANGE', stream, from, '(' .. id, 'COUNT', PAGE)
    if #page == 0 then return number, true end
    for _, entry in ipairs(page) do
      for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    end
    number, from = number + #page, '(' .. page[#page][1]
  end
  return math.min(number, most), false
end

local function waiting()
  local stream = P .. 'intake:' .. tenant
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if not entry then return nil end
  local before, exact = entries_before(stream)
  return {entry = told({before = before, exact = exact}, entry[2])}
end

local function flush()
  local name = tenant .. ':' .. id
  local raw, record = redis.call('HGETALL', P .. 'flush:' .. name), {}
  if #raw == 0 then return nil end
  for at = 1, #raw, 2 do record[raw[at]] = raw[at + 1] end
  record.open = {index = redis.call('SCARD', P .. 'open:index:' .. name),
    understand = redis.call('SCARD', P .. 'open:understand:' .. name)}
  return {flush = record, outage = outage(open_groups(name))}
end

-- Where in a mailbox the first item stands that is the one: its place from 0, or nil; and how much was seen.
local function find_item(k, is_it)
  local number, bytes = 0, 0
  for _, list in ipairs({k.run, k.box}) do
    local length = redis.call('LLEN', list)
    for start = 0, length - 1, PAGE do
      for _, item in ipairs(redis.call('LRANGE', list, start, start + PAGE - 1)) do
        if is_it(item) then return number, true end
        number, bytes = number + 1, bytes + #item
        if number >= most or bytes >= most_bytes then return number, false end
      end
    end
  end
  return nil, true
end

local function place(lane, group, turn, is_it)
  local k = lane_keys(lane, group)
  local before, exact = find_item(k, is_it)
  local answer = {lane = lane, group = group, before = before, exact = exact}
  answer.dead = redis.call('HGET', P .. 'buried', group .. ' ' .. turn) or nil
  if before then
    local head = redis.call('HMGET', k.meta, 'crashes', 'failures', 'given', 'reason', 'detail', 'failed_ms')
    if exact and before < math.max(tonumber(head[3] or '0'), 1) then
      answer.tries = tonumber(head[1] or '0') + tonumber(head[2] or '0')
    end
    answer.reason, answer.detail, answer.failed_ms = head[4] or nil, head[5] or nil, head[6] or nil
  end
  return answer
end

local function letter_in(answer, letter_id)
  local letter = letter_of(tenant, letter_id)
  if not letter then return answer end
  answer.letter = {id = letter_id, reason = letter.reason, detail = letter.detail}
  if letter.lane == 'intake' then told(answer.letter, fields_of(letter)) end
  return answer
end

local function among(list, value)
  for _, each in ipairs(list) do
    if each == value then return true end
  end
  return false
end

local function routed(job)
  local operator, session, turn, homes, understood = job[1], job[2], job[3], job[5], job[6]
  local answer = {turn = job, buffered = false, places = {}, outage = outage(understood)}
  for _, text in ipairs(redis.call('LRANGE', P .. 'buffer:' .. tenant .. ':' .. escape(session), 0, -1)) do
    if cjson.decode(text).id == turn then answer.buffered = true end
  end
  local function indexes(item) return item_id(item) == id end
  local plain = '' -- letters that every encoder of JSON leaves as they are, so that few items are parsed
  for run in string.gmatch(turn, '%w+') do
    if #run > #plain then plain = run end
  end
  local function understands(item)
    if not string.find(item, plain, 1, true) then return false end
    local body = body_of(item)
    return body.operator == operator and body.session == session and among(body.turns or {}, turn)
  end
  for _, group in ipairs(homes) do answer.places[#answer.places + 1] = place('index', group, turn, indexes) end
  for _, group in ipairs(understood) do
    answer.places[#answer.places + 1] = place('understand', group, turn, understands)
  end
  for _, each in ipairs(answer.places) do
    if each.dead and not answer.letter then letter_in(answer, each.dead) end
  end
  return answer
end

local function kept()
  local text = redis.call('HGET', jobs_key(tenant, id), id)
  local job = text and cjson.decode(text)
  if not job then return nil end
  if #job > 2 then return routed(job) end
  if job[1] == 'dead' then return letter_in({dead = job[2]}, job[2]) end
  return {seen = job[2]}
end

return cjson.encode(waiting() or kept() or flush() or {})
