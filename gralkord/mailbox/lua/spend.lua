-- spend: keep account of model calls: by day without operators, by day with them, and of all time.
-- ARGV: name of who writes, number of its delivery, rows (JSON list, for each: [tenant, operator ('-' = none),
-- 'role model stage lens', day (since 1970), calls, prompt tokens, cached ones of them, completion tokens, ms,
-- nano-dollars, calls whose price is not known]), days to keep, most rows of a day, most rows by operator of a
-- day, and of all days
-- A delivery that has come already changes nothing, so that it may be sent again when its answer was lost.
-- Beyond its limit what is new is counted without its stage, model and lens, or without its operator. On the first
-- write of a day the oldest days by operator go, as far as the tenant has too many rows.
-- Returns for each row {nano-dollars, tokens} of the tenant's day and {nano-dollars, tokens} of the operator's.
local writer, number, rows = P .. 'ledger:' .. ARGV[1], tonumber(ARGV[2]), cjson.decode(ARGV[3])
local days, most, most_named, most_kept = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local REST, TOTALS_DAYS = '- - - -', 2
local fresh = number > tonumber(redis.call('GET', writer) or '0')

-- Add numbers to those that a field keeps, parted by blanks.
local function add(key, field, more)
  local sums, at = {}, 0
  for kept in string.gmatch(redis.call('HGET', key, field) or '', '%d+') do sums[#sums + 1] = tonumber(kept) end
  for at, each in ipairs(more) do sums[at] = whole((sums[at] or 0) + each) end
  redis.call('HSET', key, field, table.concat(sums, ' '))
end

local function add_row(key, field, rest, limit, more, kept_days)
  local length = redis.call('HLEN', key)
  if length >= limit and redis.call('HEXISTS', key, field) == 0 then field = rest end
  add(key, field, more)
  if length == 0 and kept_days then redis.call('PEXPIRE', key, whole(kept_days * DAY_MS)) end
  return length == 0
end

local function drop_oldest(tenant, day)
  local rows_kept = 0
  for back = 1, days do
    local key = P .. 'spenders:' .. tenant .. ':' .. whole(day - back)
    rows_kept = rows_kept + redis.call('HLEN', key)
    if rows_kept > most_kept then redis.call('UNLINK', key) end
  end
end

local answers = {}
for at, row in ipairs(rows) do
  local tenant, operator, name, day, counts = row[1], row[2], row[3], row[4], {unpack(row, 5)}
  local totals = P .. 'spent:' .. tenant .. ':' .. whole(day)
  if fresh then
    add_row(P .. 'spend:' .. tenant .. ':' .. whole(day), name, REST, most, counts, days)
    local named = P .. 'spenders:' .. tenant .. ':' .. whole(day)
    if add_row(named, operator .. ' ' .. name, '* ' .. name, most_named, counts, days) then drop_oldest(tenant, day) end
    add_row(P .. 'spend:' .. tenant .. ':all', name, REST, most, counts)
    local used = {counts[6], counts[2] + counts[4]}
    add_row(totals, '*', '*', most, used, TOTALS_DAYS)
    if operator ~= '-' then add(totals, operator, used) end
  end
  answers[at] = {redis.call('HGET', totals, '*') or '0 0', redis.call('HGET', totals, operator) or '0 0'}
end
if fresh then redis.call('SET', writer, whole(number), 'PX', HOUR_MS) end
return answers
