"""A translation that goes round in circles is searched again, with a rule that forbids it."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.decode.assemble import SearchResult
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import Segment
from pellucid.decode.repetition import has_repetition

NO_REPEAT_NGRAM = 4
"""No so many pieces in a row stand twice in what is searched again."""


def needs_retry(part: Segment, found: Sequence[Hypothesis], config: SearchConfig) -> bool:
    """Whether the best of these repeats itself where the source does not, and is not to be kept as it is."""
    return (
        config.repetition == "retry"
        and bool(found)
        and has_repetition(found[0].tokens)
        and not has_repetition(part.request.source)
    )


def forbid_repeats(part: Segment) -> Segment:
    """The same, to be searched without repeating itself."""
    return replace(part, request=replace(part.request, no_repeat=NO_REPEAT_NGRAM))


def choose_retried(first: SearchResult, second: list[Hypothesis]) -> SearchResult:
    """What the second search found, or the first where that was no better: its terms may repeat themselves."""
    if not second or has_repetition(second[0].tokens):
        return replace(first, notes=("repeats itself",))
    return SearchResult(second, notes=(f"repeated itself; searched again with no {NO_REPEAT_NGRAM} pieces twice",))
