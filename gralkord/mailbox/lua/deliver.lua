-- deliver: put items into mailboxes from outside the intake stream.
-- ARGV: {lane, group, item} triples
-- Returns a JSON list of {lane, group} to ring.
local rings = {}
for at = 1, #ARGV, 3 do
  if put(ARGV[at], ARGV[at + 1], ARGV[at + 2], false) then
    rings[#rings + 1] = {ARGV[at], ARGV[at + 1]}
  end
end
return cjson.encode(rings)
