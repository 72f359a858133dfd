-- dead_retry: put dead letters back to work, each at the tail of its mailbox or of the intake stream.
-- ARGV: tenant, understand (1/0), dead letter id …
-- Returns a JSON list of {lane, group} to ring, then for each id: retried; not_found = there is none, or it
-- is another tenant's; unreadable = it does not say where its fields end, or has more than a script can hand
-- over. Only for retried anything happened.
-- Never in front of what waits: the items behind it have been done since, or are being done. The attempts
-- begin anew, and no flush waits for it any more: those that did have been answered.
local tenant, understand = ARGV[1], ARGV[2] == '1'
local MOST_FIELDS = 4000
local rings = {}

local function deliver(lane, group, item)
  if put(lane, group, item, false) then rings[#rings + 1] = {lane, group} end
end

local function enter(letter)
  local fields = fields_of(letter)
  if #fields == 0 or #fields > MOST_FIELDS then return false end
  local old = item_id(letter.item)
  local new = redis.call('XADD', P .. 'intake:' .. tenant, '*', unpack(fields))
  local jobs = jobs_key(tenant, old)
  if redis.call('HEXISTS', jobs, old) == 1 then redis.call('HSET', jobs, old, cjson.encode({'seen', new})) end
  return true
end

-- A body is never written anew by cjson, which would round its ordinal.
local function without_flushes(item)
  local rest, found = string.gsub(item, '"flushes":%[[^%]]*%],', '', 1)
  return found == 1 and rest or (string.gsub(item, ',"flushes":%[[^%]]*%]', '', 1))
end

local function buffered(body)
  local name = P .. 'buffer:' .. tenant .. ':' .. escape(body.session)
  for _, text in ipairs(redis.call('LRANGE', name, 0, -1)) do
    if cjson.decode(text).id == body.turn_id then return true end
  end
  return false
end

-- When it was understood the turn had no words yet; so it is understood by itself, where it was to be.
local function follow(number, letter)
  local body = body_of(letter.item)
  if body.kind ~= 'turn' or buffered(body) then return end
  local targets, job = {letter.group}, redis.call('HGET', jobs_key(tenant, item_id(letter.item)), item_id(letter.item))
  job = job and cjson.decode(job)
  if job and #job == 6 then
    local homes = {}
    for _, home in ipairs(job[5]) do homes[home] = true end
    targets = {}
    for _, group in ipairs(job[6]) do
      if group == letter.group or (job[5][1] == letter.group and not homes[group]) then
        targets[#targets + 1] = group
      end
    end
  end
  local stamp = whole(micros()) .. '.r' .. number
  local function send(group, id, lens)
    deliver('understand', group, id .. ' ' .. cjson.encode({kind = 'understand', home = letter.group, lens = lens,
      turns = {body.turn_id}, operator = body.operator, agent = body.agent, session = body.session}))
  end
  for _, group in ipairs(targets) do
    local lenses = group ~= letter.group and body.shared or {}
    if #lenses == 0 then send(group, stamp) end
    for at, lens in ipairs(lenses) do send(group, stamp .. '.' .. at, lens) end
  end
end

local answer = {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local letter = letter_of(tenant, id)
  local outcome = letter and 'retried' or 'not_found'
  if letter and letter.lane == 'intake' then
    outcome = enter(letter) and outcome or 'unreadable'
  elseif letter then
    deliver(letter.lane, letter.group, without_flushes(letter.item))
    if letter.lane == 'index' and understand then follow(at, letter) end
  end
  if outcome == 'retried' then
    discard(id, letter)
    tally('dead_retried')
  end
  answer[#answer + 1] = outcome
end
table.insert(answer, 1, cjson.encode(rings))
return answer
