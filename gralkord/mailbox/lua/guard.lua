-- guard: close intake while the server's memory is nearly full; so that it does not flap, open it at less only.
-- Before that the oldest hour of receipts is forgotten at each call: they are kept for convenience only.
-- ARGV: close from (percent), open below (percent), closed for (ms, unless this is called again), forget
-- receipts from (percent), tenant …
-- Returns {percent of the limit in use (-1 = there is none), 1 = closed, 0 = open}.
local close_from, open_below, closed_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local forget_from = tonumber(ARGV[4])
local info, key = redis.call('INFO', 'memory'), P .. 'closed'
local function number(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)') or '0') end
local limit = number('maxmemory')
if limit == 0 then
  redis.call('DEL', key)
  return {-1, 0}
end
-- As the server itself counts when it refuses a write.
local percent = (number('used_memory') - number('mem_not_counted_for_evict')) * 100 / limit

local function forget_receipts(tenant)
  local hour = math.floor(now_ms() / HOUR_MS)
  for before = KEPT_MS / HOUR_MS + 1, 2, -1 do
    local jobs = P .. 'jobs:' .. tenant .. ':' .. whole(hour - before)
    local known = redis.call('HLEN', jobs)
    if known > 0 then
      redis.call('UNLINK', jobs)
      redis.call('HINCRBY', P .. 'counters', 'receipts_forgotten', known)
      return
    end
  end
end

if percent >= forget_from then
  for at = 5, #ARGV do forget_receipts(ARGV[at]) end
end
if percent < open_below or (percent < close_from and redis.call('EXISTS', key) == 0) then
  redis.call('DEL', key)
  return {math.floor(percent), 0}
end
local why = 'the memory of the queue is ' .. whole(math.floor(percent)) .. ' % full'
redis.call('SET', key, why, 'PX', closed_ms)
return {math.floor(percent), 1}
