"""How well the doubts of a model tell its mistakes: counted on pairs that it was not trained on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pellucid.api import Model
from pellucid.interpret.trace.doubt import find_doubt, find_wrong_words
from pellucid.interpret.trace.session import Trace

MOST_PAIRS = 500  # most pairs that are translated
MOST_MISTAKES = 20  # mistakes after which the count ends: a share of ten is known well enough
MOST_RIGHT = 100  # most right translations that are traced


@dataclass(frozen=True)
class DoubtCounts:
    """Counts of translations: of `mistakes`, which are not the reference, a word was doubted in `doubted`.

    It was a wrong word in `named`. Of so many `right` ones a word was doubted in `right_doubted`.
    `pairs` were looked at.
    """

    pairs: int = 0
    mistakes: int = 0
    doubted: int = 0
    named: int = 0
    right: int = 0
    right_doubted: int = 0


def count_doubts(
    model: Model, pairs: Iterable[tuple[str, str]], on_progress: Callable[[], None]
) -> DoubtCounts:
    """Count the doubts of a model on pairs, up to enough mistakes; `on_progress` is called before each sentence.

    Capital letters make no mistake. A line that is translated in parts, or cannot be traced, is
    left out.
    """
    looked_at = mistakes = doubted = named = right = right_doubted = 0
    for source, reference in pairs:
        if looked_at == MOST_PAIRS or mistakes == MOST_MISTAKES:
            break
        on_progress()
        is_right = _plain(model.translate(source).text) == _plain(reference)
        if is_right and right == MOST_RIGHT:
            looked_at += 1
            continue
        trace = _trace_whole(model, source)
        if trace is None:
            continue

        looked_at += 1
        doubt = find_doubt(trace)
        if is_right:
            right += 1
            right_doubted += doubt is not None
        else:
            mistakes += 1
            doubted += doubt is not None
            wrong = find_wrong_words(_plain(trace.target.text), _plain(reference))
            named += doubt is not None and doubt.word in wrong

    return DoubtCounts(looked_at, mistakes, doubted, named, right, right_doubted)


def _trace_whole(model: Model, source: str) -> Trace | None:
    """Trace a line with as few tensors as possible; None where it has several parts, or is too long."""
    try:
        trace = model.trace(source, keep="decoder.0.cross.pattern")
    except ValueError:
        return None
    return trace if trace.facts.part is None else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
