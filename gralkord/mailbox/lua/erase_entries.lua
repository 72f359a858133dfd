-- erase_entries: take entries out of an intake stream for good, and note that they were erased.
-- ARGV: tenant, entry id …
-- Returns how many were there.
local tenant, taken = ARGV[1], 0
for at = 2, #ARGV do
  if redis.call('XDEL', P .. 'intake:' .. tenant, ARGV[at]) == 1 then
    note_job(tenant, ARGV[at], cjson.encode({'erased'}))
    taken = taken + 1
  end
end
return taken
