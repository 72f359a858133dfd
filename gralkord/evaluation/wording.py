"""The words that a generated conversation is made of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Final

PEOPLE: Final = (
    *("Adela", "Bruno", "Carmen", "Dorian", "Esther", "Fabian", "Greta", "Hektor"),
    *("Irina", "Jonas", "Kamilla", "Leander"),
)
STRANGERS: Final = ("Quirin", "Ottilie", "Xaver", "Wenzel", "Zdenka")

_KINDS: Final = (
    *("old", "green", "northern", "wooden", "stone", "narrow", "white", "forgotten", "iron"),
    *("upper", "crooked", "yellow"),
)
NOUNS: Final = (
    *("boathouse", "granary", "workshop", "chapel", "archive", "greenhouse", "cellar", "stable"),
    *("mill", "pavilion", "garage", "observatory"),
)
_LOOKS: Final = ("glass", "sunken", "painted", "floating", "hidden", "royal", "winter", "moving")
_SIGHTS: Final = (
    *("lighthouse", "aqueduct", "market hall", "monastery", "waterfall", "viaduct", "castle"),
    *("amphitheatre", "vineyard", "dockyard", "cemetery", "orangery", "puppet theatre"),
    *("salt mine", "cable railway", "herb garden", "tannery", "racecourse", "toll bridge"),
    *("fish ladder", "clock museum", "quarry", "windmill", "ferry terminal", "ice cave"),
    *("carillon", "maze", "glassworks", "signal tower", "peat bog", "weir", "planetarium"),
    *("arboretum", "foundry", "reed bed", "bell tower", "ropeway", "lime kiln"),
)
HIDEOUTS: Final = (
    *("under the third flower pot", "behind the loose brick", "in the blue biscuit tin"),
    *("on the nail above the door", "inside the broken clock", "below the doormat"),
)
IMPRESSIONS: Final = (
    *("and it was smaller than I had thought", "and stayed until it closed"),
    *("although it rained all the way", "and I took far too many pictures"),
    *("which had been on my list for years", "and nobody else was there"),
)
# What somebody says of himself, how it is asked for, and what can take its place.
CHANGING: Final = (
    (
        "I have moved, my flat is in {} now.",
        "In which town does {} have a flat?",
        ("Tornby", "Valmara", "Eskholm", "Brieux", "Kastell", "Ondria"),
    ),
    (
        "I have a new job, I work as a {} from now on.",
        "What does {} work as?",
        ("bookbinder", "surveyor", "cheesemaker", "translator", "beekeeper", "stage painter"),
    ),
    (
        "I do not drink anything but {} with breakfast any more.",
        "What does {} drink with breakfast?",
        ("mint tea", "malt coffee", "buttermilk", "carrot juice", "cold cocoa", "rosehip tea"),
    ),
    (
        "I have changed to the {} for the way to work.",
        "How does {} get to work?",
        ("tram", "cargo bicycle", "ferry", "night bus", "scooter", "commuter train"),
    ),
)
COLLECTED: Final = (
    (
        "I have begun to play the {}.",
        "Which instruments has {} begun to play?",
        ("oboe", "harp", "accordion", "viola", "trombone", "dulcimer"),
    ),
    (
        "My pen friend from {} has written to me again.",
        "From which countries do the pen friends of {} write?",
        ("Iceland", "Peru", "Kenya", "Vietnam", "Georgia", "Portugal"),
    ),
    (
        "I am allergic to {}, as I have found out.",
        "What is {} allergic to?",
        ("hazelnuts", "celery", "mustard", "sesame", "lupins", "shrimps"),
    ),
)
# Nothing that is said tells anything of it.
NEVER_TOLD: Final = (
    "What is the blood group of {}?",
    "Which shoe size does {} wear?",
    "What was the name of {}'s primary school?",
    "How tall is {}?",
)
FOREIGN: Final = (
    "How many moons does Saturn have?",
    "Which port does the Postgres server listen on?",
    "Who won the chess tournament in Reykjavik?",
    "What is the boiling point of ethanol?",
    "How do I undo the last commit?",
)
_OPENINGS: Final = ("By the way,", "Well,", "Today", "Since the morning", "Once more", "Luckily")
_THINGS: Final = (
    *("the radiator", "my bicycle", "the printer", "the neighbour's dog", "the coffee machine"),
    *("the garden hose", "my umbrella", "the lift", "the kitchen lamp", "the parcel", "the fence"),
    *("the old radio", "my rucksack", "the washing machine", "the letter box", "the sofa"),
)
_STATES: Final = (
    *("made a strange noise", "was in the way", "had to be cleaned", "stopped working for a while"),
    *("was nowhere to be found", "looked better than before", "got wet", "needed a new screw"),
)
_ACTIONS: Final = (
    *("so I called my sister", "and we laughed about it", "so dinner was late"),
    *("but that was all right", "and I fixed it with tape", "so I read the manual"),
    *("and then the phone rang", "but nobody noticed", "so we took a walk instead"),
    *("and I wrote it on the list", "but there are worse things", "so I made soup"),
)
# Noise in the words of questions.
_ALIKE: Final = (
    "I should go to see the {sight} one day.",
    "Somebody has asked me about the spare key of the {thing}.",
    "My cousin went to see the {sight}, I did not.",
    "Who knows in which year they will repair the {thing}?",
    "My uncle has moved to another town, to a flat without a garden.",
    "My colleague has a new job, and works as something with computers.",
    "I would like to begin to play something one day.",
    "The {thing} has a number that nobody remembers.",
)
_ALIKE_SHARE: Final = 0.15


@cache
def things() -> tuple[str, ...]:
    """Return buildings, each with a name of its own."""
    return tuple(f"{kind} {noun}" for noun in NOUNS for kind in _KINDS)


@cache
def sights() -> tuple[str, ...]:
    """Return what can be visited, each with a name of its own."""
    return tuple(f"{look} {sight}" for sight in _SIGHTS for look in _LOOKS)


def noise(chance: random.Random) -> str:
    """Return a sentence that no question is about, some in the words of questions."""
    if chance.random() < _ALIKE_SHARE:
        text, thing, sight = (_pick(chance, some) for some in (_ALIKE, things(), sights()))
        return text.format(thing=thing, sight=sight)
    parts = (_OPENINGS, _THINGS, _STATES, _ACTIONS)
    opening, thing, state, action = (_pick(chance, some) for some in parts)
    return f"{opening} {thing} {state}, {action}."


def _pick(chance: random.Random, some: Sequence[str]) -> str:
    return some[int(chance.random() * len(some))]
