-- backlog: how much of a tenant waits, and since when.
-- ARGV: tenant, most groups to look at in each lane
-- Returns JSON {now (ms), intake = {entries, oldest (ms)}, lanes = {lane = {items, ready, leased, waiting,
-- oldest (ms), whole}}}: groups due, at work and waiting for their time; whole = all groups were looked at.
-- A time that is not known is 0. The time stands in the ids of items; those of a backfill have none.
local tenant, most = ARGV[1], tonumber(ARGV[2])
local now, own, all = now_ms(), 'op__' .. tenant .. '__', 'global__' .. tenant

local function stamp(id)
  local digits = tonumber(string.match(id or '', '^(%d+)[-.]') or '0')
  return digits > 1e14 and math.floor(digits / 1000) or digits -- in microseconds
end

local function older(one, other)
  if one == 0 or other == 0 then return math.max(one, other) end
  return math.min(one, other)
end

local function look(lane)
  local found = {items = 0, ready = 0, leased = 0, waiting = 0, oldest = 0, whole = true}
  local left = most
  for _, state in ipairs({'ready', 'leased'}) do
    local key = P .. state .. ':' .. lane
    local groups = left > 0 and redis.call('ZRANGE', key, 0, left - 1, 'WITHSCORES') or {}
    found.whole = found.whole and redis.call('ZCARD', key) <= left
    for at = 1, #groups, 2 do
      local group = groups[at]
      if group == all or string.sub(group, 1, #own) == own then
        local k = lane_keys(lane, group)
        local kind = state == 'ready' and tonumber(groups[at + 1]) > now and 'waiting' or state
        local head = redis.call('LINDEX', k.run, 0) or redis.call('LINDEX', k.box, 0)
        found[kind] = found[kind] + 1
        found.items = found.items + redis.call('LLEN', k.run) + redis.call('LLEN', k.box)
        found.oldest = older(found.oldest, stamp(head and item_id(head)))
      end
    end
    left = left - #groups / 2
  end
  return found
end

local intake = P .. 'intake:' .. tenant
local first = redis.call('XRANGE', intake, '-', '+', 'COUNT', 1)[1]
return cjson.encode({
  now = now,
  intake = {entries = redis.call('XLEN', intake), oldest = stamp(first and first[1])},
  lanes = {index = look('index'), understand = look('understand')},
})
