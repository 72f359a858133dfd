-- dead_drop: take dead letters away for good.
-- ARGV: tenant, dead letter id …
-- Returns for each id: dropped; not_found = there is none, or it is another tenant's, and nothing happened.
local tenant, answer = ARGV[1], {}
for at = 2, #ARGV do
  local letter = letter_of(tenant, ARGV[at])
  if letter then
    discard(ARGV[at], letter)
    tally('dead_dropped')
  end
  answer[#answer + 1] = letter and 'dropped' or 'not_found'
end
return answer
