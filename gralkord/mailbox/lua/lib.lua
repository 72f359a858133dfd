-- Shared by all scripts and put before each of them. KEYS[1] is always the key prefix; names are built
-- from it as gralkord/mailbox/keys.py documents (one server, no cluster). Times are the server's own, in ms.
local P = KEYS[1]
local KEPT_MS = 7 * 24 * 3600 * 1000 -- records of flushes and jobs
local HOUR_MS = 3600 * 1000
local SESSION_MS = 30 * 24 * 3600 * 1000
local SEEN_MS = 24 * 3600 * 1000
local BELL_MS = 3000
local DAY_MS = 24 * HOUR_MS
local BUDGET_PROBE_MS = 2000

local function micros()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function now_ms() return math.floor(micros() / 1000) end

local function whole(number) return string.format('%.0f', number) end

-- Epochs come from one counter, never repeat, and stay ahead of the clock even if the counter was lost.
local function next_epoch()
  local last = tonumber(redis.call('GET', P .. 'epoch') or '0')
  local epoch = whole(math.max(last + 1, micros()))
  redis.call('SET', P .. 'epoch', epoch)
  return epoch
end

local function lane_keys(lane, group)
  local tail = lane .. ':' .. group
  return {
    box = P .. 'box:' .. tail, run = P .. 'run:' .. tail, meta = P .. 'meta:' .. tail,
    bell = P .. 'bell:' .. tail, ready = P .. 'ready:' .. lane, leased = P .. 'leased:' .. lane,
  }
end

-- On whose accounts a group's model calls are: its tenant's, and its operator's if it is of one.
local function accounts_of(group)
  local tenant, operator = string.match(group, '^op__(.-)__(.-)__')
  if tenant then return {tenant, tenant .. ':' .. operator}, {'*', operator} end
  tenant = string.match(group, '^global__(.+)$')
  return {tenant}, {'*'}
end

-- The budgets that were found spent on a day, by account; see acquire, which notes them.
local function budget_key(now) return P .. 'budget:' .. whole(math.floor(now / DAY_MS)) end

-- Until when (ms) no item of a group that asks a model is to be tried, because a budget of its accounts is spent,
-- and since when; nil = none is.
local function budget_hold(group, now)
  local names = accounts_of(group)
  if #names == 0 then return nil end
  local held, from = nil, nil
  for _, note in ipairs(redis.call('HMGET', budget_key(now), unpack(names))) do
    local upto, since = string.match(note or '', '^(%d+) (%d+)$')
    if upto and (not held or tonumber(upto) > held) then held, from = tonumber(upto), tonumber(since) end
  end
  return held, from
end

-- Let one item of a group's accounts be tried, and others only when that had time to tell.
local function try_budget(group, now)
  local key = budget_key(now)
  for _, name in ipairs(accounts_of(group)) do
    local since = string.match(redis.call('HGET', key, name) or '', ' (%d+)$')
    if since then redis.call('HSET', key, name, whole(now + BUDGET_PROBE_MS) .. ' ' .. since) end
  end
end

-- An item is its id, a blank, and its body, so that no script has to parse a body.
local function item_id(item) return string.sub(item, 1, string.find(item, ' ', 1, true) - 1) end

-- Note that a doorbell is under way; true = none was. Only for a caller that is told to ring, and does.
local function ring(k)
  return redis.call('SET', k.bell, 1, 'NX', 'PX', BELL_MS) and true or false
end

-- Whether what waits for a group's understand lane waits for a model or a budget.
local function on_hold(group)
  return redis.call('EXISTS', P .. 'model:outage') == 1 or budget_hold(group, now_ms()) ~= nil
end

-- Items of a group that count against the limit: those of the understand lane do not while a model is out or a
-- budget is spent, nor afterwards those that came meanwhile, for they are no texts. Beyond the limit only it is
-- looked at so closely.
local function backlog_of(group, limit)
  local indexed = redis.call('LLEN', P .. 'box:index:' .. group)
  local waits = redis.call('LLEN', P .. 'box:understand:' .. group)
  if indexed + waits < limit or waits == 0 then return indexed + waits end
  if on_hold(group) then return indexed end
  local excused = redis.call('HGET', P .. 'meta:understand:' .. group, 'excused') or '0'
  return indexed + math.max(0, waits - tonumber(excused))
end

-- Append (or put in front) one item; true = ring the doorbell.
local function put(lane, group, item, front)
  local k = lane_keys(lane, group)
  local waits = redis.call(front and 'LPUSH' or 'RPUSH', k.box, item)
  redis.call('HINCRBY', P .. 'depth', lane, 1)
  if lane == 'understand' and on_hold(group) then redis.call('HSET', k.meta, 'excused', waits) end
  if redis.call('ZSCORE', k.leased, group) then return lane == 'index' end
  redis.call('ZADD', k.ready, 'NX', whole(now_ms()), group) -- NX keeps the later due time of a wait
  return ring(k)
end

-- Which entry has taken a turn already, and, where its name is that of a place, which turn that was.
local function taken_by(seen)
  local value = redis.call('GET', P .. 'seen:' .. seen)
  if not value then return nil end
  local id, turn = string.match(value, '^(%S+) (.+)$')
  return id or value, turn
end

-- Which entry has taken what one of these marks, {seen tail, turn id where that is a place's, else ''}, stands for.
local function taken_of(marks)
  for _, mark in ipairs(marks) do
    local first, turn = taken_by(mark[1])
    if first and (mark[2] == '' or turn == mark[2]) then return first end
  end
end

-- Note that an entry has taken a turn.
local function take_for(id, seen, place)
  redis.call('SET', P .. 'seen:' .. seen, place == '' and id or id .. ' ' .. place, 'PX', SEEN_MS)
end

local function holds(k, group, epoch)
  return redis.call('HGET', k.meta, 'epoch') == epoch and redis.call('ZSCORE', k.leased, group)
end

local function body_of(item) return cjson.decode(string.sub(item, string.find(item, ' ', 1, true) + 1)) end

-- The flushes an item serves stand in its body as "flushes":[…]; only such items are parsed.
local function flushes_of(item)
  if not string.find(item, '"flushes":', 1, true) then return {} end
  return body_of(item).flushes or {}
end

-- Note that an item is done for every flush that waits for it; tell the waiters when it was the last.
-- died_of: why it was given up, if it is done only for that.
local function settle(lane, group, item, died_of)
  for _, flush in ipairs(flushes_of(item)) do
    local open, record = P .. 'open:' .. lane .. ':' .. flush, P .. 'flush:' .. flush
    redis.call('SREM', open, group .. ' ' .. item_id(item))
    if redis.call('EXISTS', record) == 1 then
      if died_of then
        redis.call('HINCRBY', record, 'dead', 1)
        redis.call('HSET', record, 'died_of', died_of)
      end
      if redis.call('EXISTS', open) == 0 then
        redis.call('HSET', record, lane, 1, lane .. '_ms', whole(now_ms()))
        redis.call('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'flush', flush, 'lane', lane)
      end
    end
  end
end

-- Take the item out of the run list by its id; nil if it is not there. It is the head, as a rule.
local function take(k, id)
  local head = redis.call('LINDEX', k.run, 0)
  if head and item_id(head) == id then return redis.call('LPOP', k.run) end
  for _, item in ipairs(redis.call('LRANGE', k.run, 0, -1)) do
    if item_id(item) == id then
      redis.call('LREM', k.run, 1, item)
      return item
    end
  end
end

local function tally(name) redis.call('HINCRBY', P .. 'counters', name, 1) end

-- The turns an item is about: one for the index lane, those of its episode for the understand lane.
local function turns_of(item)
  local body = body_of(item)
  return body.turns or (body.turn_id and {body.turn_id}) or {}
end

-- A letter as the dead stream keeps it; returns its id.
-- sizes: of an entry's fields, so that they can be told apart again.
local function write_off(lane, group, item, reason, detail, attempts, sizes)
  tally('dead_buried')
  return redis.call('XADD', P .. 'dead', '*', 'lane', lane, 'group', group, 'item', item,
    'reason', reason, 'detail', detail, 'attempts', attempts, 'sizes', sizes or '')
end

-- answer: what a model wrote that could not be used; kept beside the letter, because it is the first to be erased.
local function bury(lane, group, item, reason, detail, attempts, answer)
  local letter = write_off(lane, group, item, reason, detail, attempts)
  if answer and answer ~= '' then redis.call('HSET', P .. 'answers', letter, answer) end
  for _, turn in ipairs(turns_of(item)) do
    redis.call('HSET', P .. 'buried', group .. ' ' .. turn, letter)
  end
  redis.call('HINCRBY', P .. 'depth', lane, -1)
  settle(lane, group, item, reason)
end

-- Whether an item asks a model; barriers do not, and of requests only those that say so.
local function names_a_model(item)
  return string.find(item, '"kind":"understand"', 1, true) or string.find(item, '"asks_model":true', 1, true)
end

-- Whether the head of a mailbox does.
local function asks_a_model(k)
  local head = redis.call('LINDEX', k.run, 0) or redis.call('LINDEX', k.box, 0)
  return head and names_a_model(head) and true or false
end

-- Forget how the head of a mailbox fared: the next one starts anew.
local function forget_head(k)
  redis.call('HDEL', k.meta, 'crashes', 'failures', 'reason', 'detail', 'failed_ms')
end

-- Give the lease back; true = there is more and it is due now.
local function give_back(k, group, delay)
  redis.call('ZREM', k.leased, group)
  redis.call('HDEL', k.meta, 'seen')
  if redis.call('LLEN', k.run) + redis.call('LLEN', k.box) == 0 then
    redis.call('DEL', k.meta)
    redis.call('ZREM', k.ready, group)
    return false
  end
  redis.call('ZADD', k.ready, whole(now_ms() + delay), group)
  return delay == 0
end

-- Hand a session's buffered turns over, one understand item per run of turns, target group and, where lenses share
-- the group, lens.
-- flush: '<tenant>:<id>' or ''. Adds {lane, group} pairs to rings. Returns the number of turns.
local function flush_session(name, flush, understand, limits, rings)
  local session, buffer = P .. 'session:' .. name, P .. 'buffer:' .. name
  local turns = redis.call('LRANGE', buffer, 0, -1)
  local bound = redis.call('HMGET', session, 'operator', 'agent', 'session', 'groups', 'shared')
  local stamp = whole(micros())
  local joined, groups, runs = {}, {}, {}
  for group in string.gmatch(bound[4] or '', '[^,]+') do groups[#groups + 1] = group end
  local homes = #groups
  for group in string.gmatch(bound[5] or '', '[^,]+') do groups[#groups + 1] = group end

  local ids = {}
  local function close(key)
    local run = runs[key]
    if not run then return end
    local target, id = run.target, stamp .. '.' .. tostring(run.number)
    while ids[target .. ' ' .. id] do id = id .. '+' end -- another lens's
    ids[target .. ' ' .. id] = true
    run.body.flushes = flush ~= '' and {flush} or nil
    if flush ~= '' then
      redis.call('SADD', P .. 'open:understand:' .. flush, target .. ' ' .. id)
      joined[target] = true
    end
    if put('understand', target, id .. ' ' .. cjson.encode(run.body), false) then
      rings[#rings + 1] = {'understand', target}
    end
    runs[key] = nil
  end

  if understand then
    for number, text in ipairs(turns) do
      local turn = cjson.decode(text)
      for _, pair in ipairs(turn.targets) do
        local target, home, lens = pair[1], pair[2], pair[3]
        local key = lens and target .. ' ' .. lens or target
        local run = runs[key]
        if run and (run.body.home ~= home or #run.body.turns >= limits.turns or run.bytes + turn.bytes > limits.bytes
            or math.abs(turn.at - run.at) > limits.gap) then
          close(key)
          run = nil
        end
        if not run then
          run = {number = number, target = target, bytes = 0, body = {kind = 'understand', home = home, turns = {},
            lens = lens, operator = bound[1], agent = bound[2], session = bound[3]}}
          runs[key] = run
        end
        table.insert(run.body.turns, turn.id)
        run.bytes, run.at = run.bytes + turn.bytes, turn.at
      end
    end
    local rest = {}
    for key in pairs(runs) do rest[#rest + 1] = key end
    table.sort(rest)
    for _, key in ipairs(rest) do close(key) end
  end

  if flush ~= '' then
    -- What was routed or flushed before this flush stands before these barriers.
    local lanes = understand and {'index', 'understand'} or {'index'}
    for _, lane in ipairs(lanes) do
      for at = 1, lane == 'index' and homes or #groups do -- what is shared holds no turns to index
        local group = groups[at]
        if lane == 'index' or not joined[group] then
          local id = stamp .. '.b'
          redis.call('SADD', P .. 'open:' .. lane .. ':' .. flush, group .. ' ' .. id)
          local body = cjson.encode({kind = 'barrier', flushes = {flush}})
          if put(lane, group, id .. ' ' .. body, false) then rings[#rings + 1] = {lane, group} end
        end
      end
    end
  end
  redis.call('DEL', buffer)
  redis.call('ZREM', P .. 'idle', name)
  if redis.call('EXISTS', session) == 1 then
    redis.call('HSET', session, 'bytes', 0)
    redis.call('PEXPIRE', session, SESSION_MS)
  end
  return #turns
end

local function escape(text)
  return (string.gsub(text, '[^A-Za-z0-9]', function(char) return string.format('_%02x', string.byte(char)) end))
end

local function jobs_key(tenant, entry)
  return P .. 'jobs:' .. tenant .. ':' .. whole(math.floor(string.match(entry, '^%d+') / HOUR_MS))
end

-- Keep what a receipt is asked for after its entry is gone; one hash for the entries of an hour.
local function note_job(tenant, entry, job)
  local key = jobs_key(tenant, entry)
  redis.call('HSET', key, entry, job)
  if redis.call('HLEN', key) == 1 then redis.call('PEXPIRE', key, KEPT_MS + HOUR_MS) end
end

-- A dead letter, if there is one of that id and it is the tenant's own: the tenant stands in the names of
-- its groups, and is the group of what died in its intake stream.
local function letter_of(tenant, id)
  local entry = redis.call('XRANGE', P .. 'dead', id, id)[1]
  if not entry then return nil end
  local letter = {}
  for at = 1, #entry[2], 2 do letter[entry[2][at]] = entry[2][at + 1] end
  local group, mine = letter.group or '', nil
  if letter.lane == 'intake' then
    mine = group == tenant
  else
    local head = 'op__' .. tenant .. '__'
    mine = group == 'global__' .. tenant or string.sub(group, 1, #head) == head
  end
  return mine and letter or nil
end

-- The fields of an entry, cut out of the text that a letter keeps of it; a newline may stand in any of them.
local function fields_of(letter)
  local at, fields = string.find(letter.item, ' ', 1, true) + 1, {}
  for size in string.gmatch(letter.sizes or '', '%d+') do
    fields[#fields + 1] = string.sub(letter.item, at, at + size - 1)
    at = at + size + 1 -- what parts them is a '=' or a newline
  end
  return fields
end

-- Take a dead letter away, and the notes that its turns are in it.
local function discard(id, letter)
  redis.call('XDEL', P .. 'dead', id)
  redis.call('HDEL', P .. 'answers', id)
  if letter.lane == 'intake' then return end
  for _, turn in ipairs(turns_of(letter.item)) do
    local field = letter.group .. ' ' .. turn
    if redis.call('HGET', P .. 'buried', field) == id then redis.call('HDEL', P .. 'buried', field) end
  end
end
