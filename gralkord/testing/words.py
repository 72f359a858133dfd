"""The words the scripted model knows: enough English to turn plain sentences into facts."""

from __future__ import annotations

from typing import Final

# Each line: the verb as written after "I", as written after "she", then its other forms.
_VERBS: Final = """
adopt adopts adopted adopting
attend attends attended attending
become becomes became becoming
bring brings brought bringing
build builds built building
buy buys bought buying
celebrate celebrates celebrated celebrating
change changes changed changing
climb climbs climbed climbing
collect collects collected collecting
come comes came coming
cook cooks cooked cooking
create creates created creating
dance dances danced dancing
date dates dated dating
donate donates donated donating
drink drinks drank drunk drinking
drive drives drove driven driving
eat eats ate eaten eating
enjoy enjoys enjoyed enjoying
feel feels felt feeling
find finds found finding
finish finishes finished finishing
fly flies flew flown flying
get gets got gotten getting
give gives gave given giving
go goes went gone going
graduate graduates graduated graduating
grow grows grew grown growing
hate hates hated hating
have has had having
help helps helped helping
hike hikes hiked hiking
host hosts hosted hosting
invite invites invited inviting
join joins joined joining
know knows knew known knowing
lead leads led leading
learn learns learned learnt learning
leave leaves left leaving
like likes liked liking
live lives lived living
lose loses lost losing
love loves loved loving
make makes made making
manage manages managed managing
marry marries married marrying
meet meets met meeting
move moves moved moving
need needs needed needing
open opens opened opening
order orders ordered ordering
own owns owned owning
paint paints painted painting
perform performs performed performing
plan plans planned planning
play plays played playing
prefer prefers preferred preferring
publish publishes published publishing
quit quits quitting
read reads reading
recommend recommends recommended recommending
rent rents rented renting
repair repairs repaired repairing
return returns returned returning
ride rides rode ridden riding
run runs ran running
see sees saw seen seeing
sell sells sold selling
sign signs signed signing
sing sings sang sung singing
speak speaks spoke spoken speaking
start starts started starting
stay stays stayed staying
stop stops stopped stopping
study studies studied studying
support supports supported supporting
swim swims swam swum swimming
switch switches switched switching
take takes took taken taking
teach teaches taught teaching
think thinks thought thinking
train trains trained training
travel travels travelled traveled travelling traveling
try tries tried trying
use uses used using
visit visits visited visiting
volunteer volunteers volunteered volunteering
walk walks walked walking
want wants wanted wanting
watch watches watched watching
win wins won winning
work works worked working
write writes wrote written writing
"""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _lines() -> list[list[str]]:
    return [line.split() for line in _VERBS.strip().splitlines()]


# Any form of a verb -> the form after "she": the word relations are made of.
VERBS: Final = {form: forms[1] for forms in _lines() for form in forms}
# The form after "I" -> the form after "she".
CONJUGATED: Final = {forms[0]: forms[1] for forms in _lines()}

AUXILIARIES: Final = _set(
    "am is are was were be been being has have had do does did will would can could should may "
    "might must shall 'll 'd going gonna used"
)
BE: Final = _set("am is are was were be been being")
ADVERBS: Final = _set(
    "actually again almost already also always before currently definitely even ever finally first "
    "just last lately longer never no not now often once only originally previously really "
    "recently since soon still then there today together tomorrow tonight usually yesterday"
)
PREPOSITIONS: Final = _set(
    "about after against around as at before behind by during for from in inside into near of on "
    "onto over through to toward towards under until with without"
)
DETERMINERS: Final = _set("the a an my our his her their your its this that")

_TIMES: Final = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december today tomorrow yesterday tonight"
)
_STARTERS: Final = (
    "i i'm i've i'll i'd you he she it we they me him her us them my your his its our their this "
    "that these those who what when where why how which whose a an the and but or so if because "
    "while although though as at by for from in into of off on onto out over to up with without "
    "after before since until once yes yeah yep no nope not oh ah wow hey hi hello well ok okay "
    "thanks thank please sorry sure great good nice cool awesome amazing congrats congratulations "
    "absolutely definitely totally exactly really actually maybe perhaps also just finally still "
    "now then there here very every everyone everything some someone something any anyone anything "
    "nothing nobody all both each most many much few more less one two three four five last next "
    "first second today's only even too again always never sometimes usually recently currently "
    "let's let look see take have has had do does did is are was were be been can could will would "
    "should may might must don't can't won't isn't it's that's there's what's how's he's she's "
    "we're they're you're sounds looks seems time life family people kids glad happy guess "
    "hope haha lol omg bye dear mr mrs ms dr user assistant human system"
)
# Capitalised words that are no names.
NOT_NAMES: Final = _set(f"{_TIMES} {_STARTERS}")
# Words with which a sentence says when something was so.
TIME_WORDS: Final = _set(
    f"{_TIMES} ago last next since until week weekend month year morning evening night spring "
    "summer autumn winter recently soon"
)
# Words inside a name: "Museum of Modern Art".
INSIDE_NAMES: Final = _set("of de da del la le van von der du")

# Words with which a sentence says that something is different from before.
CHANGES: Final = (
    "now",
    "moved",
    "no longer",
    "anymore",
    "any more",
    "instead",
    "switched",
    "changed",
    "quit",
    "left",
    "sold",
    "stopped",
)
ENDINGS: Final = ("no longer", "anymore", "any more", "quit", "left", "sold", "stopped")
# Verbs that speak of the same state: moving somewhere is living there.
FAMILIES: Final = {
    "moves": "lives",
    "stays": "lives",
    "joins": "works",
    "starts": "works",
    "owns": "has",
    "buys": "has",
    "gets": "has",
    "drives": "has",
    "adopts": "has",
    "loves": "likes",
    "enjoys": "likes",
    "prefers": "likes",
}
# Relations under one name, so that a later fact can take the place of an earlier one.
STATES: Final = {
    "MOVES_TO": "LIVES_IN",
    "JOINS": "WORKS_AT",
    "STARTS_AT": "WORKS_AT",
    "WORKS_FOR": "WORKS_AT",
}
# What ends when one of these is said.
ENDED_BY: Final = {"quits": {"works"}, "leaves": {"works", "lives"}, "sells": {"has"}}
