"""Causes of a bad translation, each recognised by signs that can be measured, with its numbers.

The limits were chosen on translations by three models, and on damaged ones: with a word taken out, or with another
sentence's translation in its place. An omission names the cross-attention that the word gets, but is not decided by it:
words whose translation was taken out got as much as others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any, Literal
from unicodedata import east_asian_width

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from pellucid.data.tokenizer import EOS
from pellucid.decode.repetition import has_repetition
from pellucid.decode.search import FORBIDDEN, length_divisor
from pellucid.decode.torch_engine import CLOSE_CALL
from pellucid.trace.causes.case import ErasureEffects, TranslationCase

OMISSION_LIMIT = 0.1
"""Nats by which hiding a word must raise log p of the translation for it to count as not resting on that word."""

HALLUCINATION_LIMIT = 0.4
"""Share that decides about hallucination: a translation may belong to another sentence if hiding its source costs less
than this share of what it costs to hide, from each piece, those before it."""

MANY_PIECES, SHORT_PIECE = 4, 2.5
"""Pieces from which, and letters a piece below which, a word counts as cut small by the vocabulary."""


SAME_SOURCE_SHARE = 0.6
"""Share of cross-attention that two words must have in common to count as written from the same part of the source."""


@dataclass(frozen=True)
class Finding:
    """One finding, in a sentence and in numbers; `step` and `word` (of the source) say where to look."""

    kind: Literal["search", "model", "tokens", "omission", "repetition", "hallucination", "fine"]
    says: str
    numbers: dict[str, float]
    step: int | None = None
    word: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the page reads it, without empty fields."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def compare_with_reference(case: TranslationCase, reference: str) -> list[Finding]:
    """Find out whether the search missed the reference or the model would not write it; nothing if neither is certain.

    Raises ValueError for a reference that is blank, or longer than the model takes.
    """
    [ids] = case.tokenizer.encode_target([reference])
    if len(ids) < 2:  # EOS alone
        raise ValueError("the reference is blank; write one, or leave it out")
    if len(ids) > case.model.config.max_positions:
        raise ValueError(f"the reference has {len(ids)} pieces, this model takes {case.model.config.max_positions}")
    # Compared as text: other pieces that spell the same are the same translation.
    if case.tokenizer.decode_target(ids) == case.tokenizer.decode_target(case.target):
        return []
    if unknown := sum(piece in FORBIDDEN for piece in ids):
        says = f"Of the {len(ids)} pieces of the reference, {unknown} are unknown: this vocabulary cannot write it."
        return [Finding("tokens", says, {"pieces": len(ids), "unknown": unknown})]

    log_probs, reference_log_probs = case.log_probs(case.target, ids)
    score, reference_score = (
        fsum(pieces) / length_divisor(len(pieces), case.length_penalty) for pieces in (log_probs, reference_log_probs)
    )
    numbers = {"score": score, "reference_score": reference_score}
    if case.searched and case.target[-1] != EOS:
        says = (
            f"The search was cut off at {len(log_probs)} pieces, before any translation ended; the reference has "
            f"{len(ids)}."
        )
        return [Finding("search", says, numbers, step=len(log_probs) - 1)]
    # Differences up to CLOSE_CALL may be rounding, and say nothing about who is to blame.
    if case.searched and reference_score - score > CLOSE_CALL:
        step, how = where_search_lost(case, ids)
        says = (
            f"The model scores the reference {reference_score:.2f}, this translation {score:.2f}: the search missed "
            f"the reference. {how}"
        )
        return [Finding("search", says, numbers, step=min(step, len(log_probs) - 1))]
    step = first_difference(case.target, ids)
    if score - reference_score > CLOSE_CALL and step < len(log_probs):
        piece, reference_piece = (
            case.tokenizer.target_pieces(target[step : step + 1])[0] for target in (case.target, ids)
        )
        says = (
            f"The model scores the reference {reference_score:.2f}, this translation {score:.2f}: no wider search "
            f"would choose the reference. They part at piece {step + 1}, where log p is {log_probs[step]:.2f} of "
            f"“{piece}” and {reference_log_probs[step]:.2f} of “{reference_piece}”."
        )
        numbers |= {"log_prob": log_probs[step], "reference_log_prob": reference_log_probs[step]}
        return [Finding("model", says, numbers, step=step)]
    return []


def first_difference(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the first position where two translations differ, which may be the end of one of them."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def where_search_lost(case: TranslationCase, ids: Sequence[int]) -> tuple[int, str]:
    """Return the step in which the search dropped a translation, and how; without a tree, the first difference."""
    if case.tree is None:
        step = first_difference(case.target, ids)
        return step, f"They part at piece {step + 1}."
    nodes = {(node.parent, node.piece_id): node for node in case.tree.nodes}
    parent, candidates = None, f"{case.tree.candidates} candidates, of which the beam keeps {case.tree.width}"
    for step, (token, piece) in enumerate(zip(ids, case.tokenizer.target_pieces(ids), strict=True)):
        node = nodes.get((parent, token))
        if node is None and step > max(existing.step for existing in case.tree.nodes):
            return step, f"The search was over before piece {step + 1} of it, “{piece}”."
        if node is None:
            return step, f"It was dropped at piece {step + 1}, “{piece}”, which was not among the {candidates}."
        if node.fate == "pruned":
            return step, f"It was dropped at piece {step + 1}, “{piece}”, which was number {node.rank} of {candidates}."
        parent = node.id
    return len(ids) - 1, "The search finished it as well."


def find_odd_pieces(case: TranslationCase) -> list[Finding]:
    """Find source words with a character that no piece covers, or cut into many small pieces."""
    findings = []
    for number, (word, span) in enumerate(zip(case.text.split(), case.source_words, strict=True)):
        unknown = sum(case.unknown[span.start : span.stop])
        pieces = case.tokenizer.source_pieces(case.source[span.start : span.stop])
        # Pieces without letters, such as digits or the mark of a word's beginning, say nothing about how it is cut.
        letter_counts = [count for count in map(count_letters, pieces) if count]
        size = sum(letter_counts) / max(1, len(letter_counts))
        if unknown:
            says = f"Of the {len(span)} pieces of “{word}”, {unknown} are unknown or bytes: it has a rare character."
        elif len(letter_counts) >= MANY_PIECES and size < SHORT_PIECE:
            says = f"“{word}” is cut into {len(span)} pieces, of {size:.1f} letters each: it is rare, or misspelled."
        else:
            continue
        numbers = {"pieces": len(span), "unknown": unknown, "letters_per_piece": size}
        findings.append(Finding("tokens", says, numbers, word=number))
    return findings


def count_letters(piece: str) -> int:
    """Return how many letters a piece has, without those that stand for words or syllables; a byte has none.

    >>> count_letters("▁ball"), count_letters("<0x41>"), count_letters("7"), count_letters("球")
    (4, 0, 0, 0)
    """
    return 0 if piece.startswith("<") else sum(x.isalpha() and east_asian_width(x) not in "WF" for x in piece)


def find_hallucination(effects: ErasureEffects) -> list[Finding]:
    """Find out whether the translation owes little to its source, compared with what it owes to itself."""
    source, prefix = effects.whole_source, effects.whole_prefix
    if -source >= HALLUCINATION_LIMIT * max(-prefix, 0.0):
        return []
    says = (
        f"With the whole source hidden, log p of the translation {describe_change(source)}; with "
        "all that stands before each of "
        f"its pieces hidden, it {describe_change(prefix)}. It may have little to do with this source."
    )
    return [Finding("hallucination", says, {"source": source, "prefix": prefix, "limit": HALLUCINATION_LIMIT})]


def find_omissions(case: TranslationCase, effects: ErasureEffects) -> list[Finding]:
    """Find source words without which the translation would be likelier, or a source that was not translated."""
    if not case.translation.strip():
        [log_probs] = case.log_probs(case.target)
        says = f"Nothing was written: the translation ended at once, with log p {log_probs[-1]:.2f} of the end mark."
        return [Finding("omission", says, {"log_prob": log_probs[-1]}, step=len(log_probs) - 1)]
    findings, shares, pieces = [], attention_by_source_word(effects), case.tokenizer.target_pieces(case.target)
    for number, (word, changes) in enumerate(zip(case.text.split(), effects.source, strict=True)):
        change, least, share = float(changes.sum()), float(changes.min()), float(shares[number])
        if change < OMISSION_LIMIT or not any(map(str.isalnum, word)):  # punctuation may well be left out
            continue
        says = (
            f"With “{word}” hidden, log p of the translation {describe_change(change)}, and that of "
            f"“{pieces[changes.argmin()]}”, which needs it most, {describe_change(least)}. The word may "
            "have been left out. "
            f"(It gets {share:.1f} times the cross-attention of an average word.)"
        )
        numbers = {"change": change, "least": least, "attention": share, "limit": OMISSION_LIMIT}
        findings.append(Finding("omission", says, numbers, step=int(changes.argmax()), word=number))
    return findings


def describe_change(change: float) -> str:
    """Say how a log-probability changes."""
    return f"{'falls' if change < 0 else 'rises'} by {abs(change):.2f}"


def attention_by_source_word(effects: ErasureEffects) -> Float[ndarray, " W"]:
    """Return how much cross-attention each source word gets; an average word gets 1."""
    rows, words = effects.attention.shape
    return effects.attention.sum(axis=0) * words / max(1, rows)


def find_repetitions(case: TranslationCase, effects: ErasureEffects) -> list[Finding]:
    """Find words written again from the same part of the source, and a translation that keeps repeating itself."""
    findings, words = [], case.translation.split()
    # What the source itself repeats may be repeated.
    allowed = max((size for _, _, size in repeated_runs(case.text.split())), default=0)
    for first, second, size in repeated_runs(words):
        a, b = (effects.attention[start : start + size] for start in (first, second))
        share = float(np.minimum(a, b).sum(axis=1).mean())
        if size <= allowed or share < SAME_SOURCE_SHARE:
            continue
        says = (
            f"“{' '.join(words[second : second + size])}” is written twice, from word {first + 1} and from word "
            f"{second + 1} on, with {share:.0%} of its cross-attention on the same words of the source."
        )
        numbers = {"first": first, "second": second, "words": size, "share": share, "limit": SAME_SOURCE_SHARE}
        word = int(np.minimum(a, b).sum(axis=0).argmax())
        findings.append(Finding("repetition", says, numbers, step=case.target_words[second].start, word=word))
    if not findings and has_repetition(case.target) and not has_repetition(case.source):
        says = "The same pieces stand four times in a row or more, and the source does not repeat itself like that."
        findings.append(Finding("repetition", says, {"pieces": len(case.target)}))
    return findings


def repeated_runs(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield where the same words stand first and again, and how many: two or more, or one directly after itself.

    >>> list(repeated_runs("La casa, la casa la blue blue".split()))
    [(0, 2, 2), (5, 6, 1)]
    """
    # Case and punctuation do not count; a word of nothing but punctuation matches nothing.
    plain = ["".join(filter(str.isalnum, word)).casefold() for word in words]
    second = 1
    while second < len(plain):
        sizes = {}  # of the run that begins at `second`, for each earlier beginning
        for first in range(second):
            same = [a == b != "" for a, b in zip(plain[first:second], plain[second:], strict=False)]
            sizes[first] = (*same, False).index(False)
        first = max(sizes, key=lambda start: (sizes[start], start))  # the longest run, and of equal ones the nearest
        if sizes[first] > 1 or (sizes[first] == 1 and first == second - 1):
            yield first, second, sizes[first]
        second += max(1, sizes[first])


def make_fine_finding(case: TranslationCase, effects: ErasureEffects) -> Finding:
    """Return the finding that nothing stands out, with the numbers that say so."""
    source, prefix = effects.whole_source, effects.whole_prefix
    words, changes = case.text.split(), effects.source.sum(axis=1)
    numbers = {"source": source, "prefix": prefix}
    says = (
        "Nothing stands out. With the whole source hidden, log p of the translation "
        f"{describe_change(source)}; with all that "
        f"stands before each of its pieces hidden, it {describe_change(prefix)}."
    )
    if len(words):
        word = int(changes.argmax())
        numbers["least"] = float(changes[word])
        says += (
            f" The word it needs least is “{words[word]}”: with that hidden, it {describe_change(numbers['least'])}."
        )
    return Finding("fine", says, numbers)
