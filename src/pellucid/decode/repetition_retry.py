"""Retries degenerate (repeating) translations with a rule against repeated n-grams."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.decode.assemble import SearchResult
from pellucid.decode.config import SearchConfig
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import Segment
from pellucid.decode.repetition import has_repetition

NO_REPEAT_NGRAM = 4
"""Tokens in a row of which no sequence may stand twice in the second search."""


def needs_retry(segment: Segment, hypotheses: Sequence[Hypothesis], config: SearchConfig) -> bool:
    """Return whether the best hypothesis repeats itself, its source does not, and the config asks for a retry."""
    return (
        config.repetition == "retry"
        and bool(hypotheses)
        and has_repetition(hypotheses[0].tokens)
        and not has_repetition(segment.request.source)
    )


def forbid_repeats(segment: Segment) -> Segment:
    """Return the segment with a request that forbids repeated n-grams."""
    return replace(segment, request=replace(segment.request, no_repeat=NO_REPEAT_NGRAM))


def choose_retried(first: SearchResult, second: list[Hypothesis]) -> SearchResult:
    """Return what the second search found, or the first result, with a note, where the second is no better."""
    # Terms and prefixes may repeat themselves whatever the rule says, so the second search can fail too.
    if not second or has_repetition(second[0].tokens):
        return replace(first, notes=("repeats itself",))
    return SearchResult(second, notes=(f"repeated itself; searched again with no {NO_REPEAT_NGRAM} pieces twice",))
