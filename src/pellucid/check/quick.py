"""A look at training text in a second or two, which says in one line if it looks wrong."""

from collections.abc import Sequence

import numpy as np

from pellucid.check.evidence import FEWEST_PAIRS, LEAST_SEPARATION, Judge, Shift, find_blocks, guess_offsets
from pellucid.check.examine import describe_block
from pellucid.check.links import WordStems
from pellucid.check.pair_faults import FAULTS, PAIR_CHECKS

_WINDOWS, _LINES = 125, 40
"""Number of windows that are looked at, evenly spaced, and of lines in each: shifts show among neighbours only."""

_LEAST_SHARE = 0.01
"""Share of pairs with a fault from which it is worth a line."""

_MOST_BLOCKS = 3
"""Blocks that are named in the line."""


def glance_at_corpus(sources: Sequence[str], targets: Sequence[str], lines: Sequence[int]) -> str | None:
    """Return one line about what looks wrong with pairs, None where nothing does; `lines` are their line numbers.

    It looks at 5,000 pairs at most, so the numbers are estimates. It sees shifted blocks of a few hundred lines, pairs
    that are no translations, and faults of single pairs that `pellucid check --fix` takes out.
    """
    pairs = len(sources)
    starts = np.linspace(0, max(0, pairs - _LINES), _WINDOWS).astype(np.int64)
    chosen: list[int] = np.unique((starts[:, None] + np.arange(_LINES)).clip(max=pairs - 1)).tolist()
    some_sources, some_targets = [sources[i] for i in chosen], [targets[i] for i in chosen]
    wrong: dict[str, np.ndarray] = {}
    for name, check in PAIR_CHECKS.items():
        if FAULTS[name].removed:
            wrong[name] = np.array([check(s, t) > 0 for s, t in zip(some_sources, some_targets, strict=True)])
    blocks: list[Shift] = []
    if pairs >= FEWEST_PAIRS:
        blocks, wrong["not_translation"] = _judge_windows(some_sources, some_targets)
        wrong["shifted"] = np.zeros(len(chosen), bool)
        for block in blocks:
            wrong["shifted"][block.first : block.last + 1] = bool(block.offset)
            wrong["not_translation"][block.first : block.last + 1] = not block.offset
    bad = np.logical_or.reduce(list(wrong.values()))
    if not blocks and bad.mean() < _LEAST_SHARE:
        return None
    named = [Shift(lines[chosen[b.first]], lines[chosen[b.last]], b.offset) for b in blocks if b.offset]
    reasons = [f"about {describe_block(block)}" for block in named[:_MOST_BLOCKS]]
    reasons += [
        f"{FAULTS[name].title} in {marks.mean():.1%}"
        for name, marks in sorted(wrong.items(), key=lambda item: -item[1].mean())
        if name != "shifted" and marks.mean() >= _LEAST_SHARE / 2
    ]
    about = f"about {round(bad.mean() * pairs):,} of {pairs:,} pairs look wrong"
    details = f" ({'; '.join(reasons)})" if reasons else ""
    return f"check: {about}{details}; `pellucid check` names them"


def _judge_windows(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[Shift], np.ndarray]:
    """Return the blocks among the lines of all windows, and which pairs are no translations."""
    words = WordStems()
    a, b = words.encode(sources), words.encode(targets)
    pairs = np.arange(len(sources))
    judge = Judge(a, b, pairs, pairs + guess_offsets(a.lengths, b.lengths))
    if judge.separation < LEAST_SEPARATION:
        return [], np.zeros(len(pairs), bool)
    logits = judge.weigh(pairs, pairs)
    return find_blocks(judge, logits), logits <= judge.threshold
