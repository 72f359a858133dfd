-- unbuffer: take turns out of a session's buffer, or a group out of what they go to; or forget the session, with
-- all that it has buffered.
-- ARGV: session name, what (all|turns|group), turn id … or the group
-- Returns the number of turns taken out.
local name, what = ARGV[1], ARGV[2]
local session, buffer = P .. 'session:' .. name, P .. 'buffer:' .. name
if what == 'all' then
  local number = redis.call('LLEN', buffer)
  redis.call('DEL', buffer, session)
  redis.call('ZREM', P .. 'idle', name)
  return number
end
local gone, taken, bytes = {}, 0, 0
for at = 3, #ARGV do gone[ARGV[at]] = true end
for place, text in ipairs(redis.call('LRANGE', buffer, 0, -1)) do
  local turn = cjson.decode(text)
  if what == 'turns' and gone[turn.id] then
    redis.call('LREM', buffer, 1, text)
    taken, bytes = taken + 1, bytes + turn.bytes
  elseif what == 'group' then
    local left = {}
    for _, pair in ipairs(turn.targets) do
      if not gone[pair[1]] and not gone[pair[2]] then left[#left + 1] = pair end
    end
    if #left < #turn.targets then
      turn.targets = left
      redis.call('LSET', buffer, place - 1, cjson.encode(turn))
    end
  end
end
if taken > 0 then redis.call('HINCRBY', session, 'bytes', -bytes) end
if redis.call('EXISTS', buffer) == 0 then redis.call('ZREM', P .. 'idle', name) end
return taken
