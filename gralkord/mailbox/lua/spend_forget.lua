-- spend_forget: forget who an operator is in the account of one day; what was spent stays with the tenant.
-- ARGV: tenant, day (since 1970), operator ('' = all)
-- Returns how many rows named it.
local tenant, day, operator = ARGV[1], ARGV[2], ARGV[3]
local key, totals, marks = P .. 'spenders:' .. tenant .. ':' .. day, P .. 'spent:' .. tenant .. ':' .. day, P .. 'budget:' .. day
local pairs_kept, taken = redis.call('HGETALL', key), 0

local function summed(one, other)
  local sums = {}
  for number in string.gmatch(one, '%d+') do sums[#sums + 1] = tonumber(number) end
  local at = 0
  for number in string.gmatch(other, '%d+') do
    at = at + 1
    sums[at] = whole((sums[at] or 0) + tonumber(number))
  end
  return table.concat(sums, ' ')
end

for at = 1, #pairs_kept, 2 do
  local who, name = string.match(pairs_kept[at], '^(%S+) (.+)$')
  if who ~= '*' and who ~= '-' and (operator == '' or who == operator) then
    redis.call('HSET', key, '* ' .. name, summed(redis.call('HGET', key, '* ' .. name) or '', pairs_kept[at + 1]))
    redis.call('HDEL', key, pairs_kept[at])
    taken = taken + 1
  end
end
for _, who in ipairs(operator ~= '' and {operator} or redis.call('HKEYS', totals)) do
  if who ~= '*' then
    redis.call('HDEL', totals, who)
    redis.call('HDEL', marks, tenant .. ':' .. who)
  end
end
return taken
