-- restream: write a stream anew. An entry that was deleted stays in memory, and so in the server's files, until
-- all that share its block of memory are deleted too.
-- ARGV: name of the stream without the prefix, most entries
-- Returns 1 = it holds no deleted entry any more; 0 = it has more entries than may be moved at once, or one with
-- more fields than a script can hand over.
local stream, most, MOST_FIELDS = P .. ARGV[1], tonumber(ARGV[2]), 4000
local length = redis.call('XLEN', stream)
if length == 0 then return 1 end -- it has no block left
if length > most then return 0 end
local entries = redis.call('XRANGE', stream, '-', '+')
for _, entry in ipairs(entries) do
  if #entry[2] > MOST_FIELDS then return 0 end
end
local last = entries[#entries][1]
local info = redis.call('XINFO', 'STREAM', stream)
for at = 1, #info, 2 do
  if info[at] == 'last-generated-id' then last = info[at + 1] end
end
redis.call('DEL', stream)
for _, entry in ipairs(entries) do redis.call('XADD', stream, entry[1], unpack(entry[2])) end
-- No id is given twice, also if the last entry was deleted within its millisecond.
if last ~= entries[#entries][1] then redis.call('XSETID', stream, last) end
return 1
