"""A translation that goes round in circles is searched again, with a rule that forbids it."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.decode.assemble import Found
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import Part
from pellucid.decode.repetition import repeats

NO_REPEAT = 4
"""No so many pieces in a row stand twice in what is searched again."""


def in_circles(part: Part, found: Sequence[Hypothesis], config: SearchConfig) -> bool:
    """Whether the best of these repeats itself where the source does not, and is not to be kept as it is."""
    return (
        config.repetition == "retry" and bool(found) and repeats(found[0].tokens) and not repeats(part.request.source)
    )


def again(part: Part) -> Part:
    """The same, to be searched without repeating itself."""
    return replace(part, request=replace(part.request, no_repeat=NO_REPEAT))


def without_circles(first: Found, second: list[Hypothesis]) -> Found:
    """What the second search found, or the first where that was no better: its terms may repeat themselves."""
    if not second or repeats(second[0].tokens):
        return replace(first, notes=("repeats itself",))
    return Found(second, notes=(f"repeated itself; searched again with no {NO_REPEAT} pieces twice",))
