"""Causes of a bad translation, each told by what would be seen of it, with its numbers.

The limits were chosen on translations by three models, and on damaged ones: a word taken out, another sentence's
translation in its place. How much cross-attention a word gets is said of an omission and does not decide it: words
whose translation was taken out got as much as others.
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
"""A translation that becomes likelier by so much (in all, in nats) when a word is hidden does not rest on that word."""

HALLUCINATION_LIMIT = 0.4
"""A translation may belong to another sentence if hiding its source costs it less than this share of what it costs to
hide, from each piece, those before it."""

MANY_PIECES, SHORT_PIECE = 4, 2.5
"""A word in so many pieces, of fewer letters each, is one the vocabulary has no larger parts of."""


SAME_SOURCE_SHARE = 0.6
"""Two words written from the same part of the source share so much of what cross-attention moved."""


@dataclass(frozen=True)
class Finding:
    """What was seen, in a sentence and in numbers; `step` and `word` (of the source) say where to look."""

    kind: Literal["search", "model", "tokens", "omission", "repetition", "hallucination", "fine"]
    says: str
    numbers: dict[str, float]
    step: int | None = None
    word: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As the page reads it."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def compare_with_reference(case: TranslationCase, reference: str) -> list[Finding]:
    """Whether the search missed the reference or the model would not write it; nothing where neither can be said.

    ValueError for a reference that is blank, or longer than the model takes.
    """
    [ids] = case.tokenizer.encode_target([reference])
    if len(ids) < 2:
        raise ValueError("the reference is blank; write one, or leave it out")
    if len(ids) > case.model.config.max_positions:
        raise ValueError(f"the reference has {len(ids)} pieces, this model takes {case.model.config.max_positions}")
    if case.tokenizer.decode_target(ids) == case.tokenizer.decode_target(case.target):
        return []
    if unknown := sum(piece in FORBIDDEN for piece in ids):
        says = f"Of the {len(ids)} pieces of the reference, {unknown} are unknown: this vocabulary cannot write it."
        return [Finding("tokens", says, {"pieces": len(ids), "unknown": unknown})]

    written, wanted = case.log_probs(case.target, ids)
    ours, theirs = (fsum(each) / length_divisor(len(each), case.length_penalty) for each in (written, wanted))
    numbers = {"score": ours, "reference_score": theirs}
    if case.searched and case.target[-1] != EOS:
        says = f"The search was cut off at {len(written)} pieces, with nothing ended; the reference has {len(ids)}."
        return [Finding("search", says, numbers, step=len(written) - 1)]
    if case.searched and theirs - ours > CLOSE_CALL:
        step, how = where_search_lost(case, ids)
        says = f"The model scores the reference {theirs:.2f}, what was found {ours:.2f}: the search missed it. {how}"
        return [Finding("search", says, numbers, step=min(step, len(written) - 1))]
    step = first_difference(case.target, ids)
    if ours - theirs > CLOSE_CALL and step < len(written):
        a, b = (case.tokenizer.target_pieces(some[step : step + 1])[0] for some in (case.target, ids))
        says = (
            f"The model scores the reference {theirs:.2f}, this translation {ours:.2f}: no wider search would choose "
            f"the reference. They part at piece {step + 1}, where log p is {written[step]:.2f} of “{a}” and "
            f"{wanted[step]:.2f} of “{b}”."
        )
        numbers |= {"log_prob": written[step], "reference_log_prob": wanted[step]}
        return [Finding("model", says, numbers, step=step)]
    return []


def first_difference(a: Sequence[int], b: Sequence[int]) -> int:
    """The first place where two translations differ, one of them perhaps by its end."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def where_search_lost(case: TranslationCase, ids: Sequence[int]) -> tuple[int, str]:
    """The step in which the search dropped a translation, and how; where the two part, if nobody looked."""
    if case.tree is None:
        step = first_difference(case.target, ids)
        return step, f"They part at piece {step + 1}."
    nodes = {(node.parent, node.piece_id): node for node in case.tree.nodes}
    parent, seen = None, f"{case.tree.candidates} candidates, of which the beam keeps {case.tree.width}"
    for step, (number, piece) in enumerate(zip(ids, case.tokenizer.target_pieces(ids), strict=True)):
        node = nodes.get((parent, number))
        if node is None and step > max(each.step for each in case.tree.nodes):
            return step, f"The search was over before piece {step + 1} of it, “{piece}”."
        if node is None:
            return step, f"It was dropped at piece {step + 1}, “{piece}”, which was not among the {seen}."
        if node.fate == "pruned":
            return step, f"It was dropped at piece {step + 1}, “{piece}”, which was number {node.rank} of {seen}."
        parent = node.id
    return len(ids) - 1, "The search had seen it end."


def find_odd_pieces(case: TranslationCase) -> list[Finding]:
    """Source words with a character that no piece covers, or cut into many small pieces."""
    found = []
    for number, (word, span) in enumerate(zip(case.text.split(), case.source_words, strict=True)):
        unknown = sum(case.unknown[span.start : span.stop])
        pieces = case.tokenizer.source_pieces(case.source[span.start : span.stop])
        parts = [count for count in map(count_letters, pieces) if count]
        size = sum(parts) / max(1, len(parts))
        if unknown:
            says = f"Of the {len(span)} pieces of “{word}”, {unknown} are unknown or bytes: it has a rare character."
        elif len(parts) >= MANY_PIECES and size < SHORT_PIECE:
            says = f"“{word}” is cut into {len(span)} pieces, of {size:.1f} letters each: it is rare, or misspelled."
        else:
            continue
        numbers = {"pieces": len(span), "unknown": unknown, "letters_per_piece": size}
        found.append(Finding("tokens", says, numbers, word=number))
    return found


def count_letters(piece: str) -> int:
    """How many letters it has, those left out that stand for words or syllables themselves; a byte has none.

    >>> count_letters("▁ball"), count_letters("<0x41>"), count_letters("7"), count_letters("球")
    (4, 0, 0, 0)
    """
    return 0 if piece.startswith("<") else sum(x.isalpha() and east_asian_width(x) not in "WF" for x in piece)


def find_hallucination(effects: ErasureEffects) -> list[Finding]:
    """A translation that owes little to its source, beside what it owes to itself."""
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
    """Source words without which the translation would be likelier; and a source that was not translated at all."""
    if not case.translation.strip():
        [log_probs] = case.log_probs(case.target)
        says = f"Nothing was written: the translation ended at once, with log p {log_probs[-1]:.2f} of the end mark."
        return [Finding("omission", says, {"log_prob": log_probs[-1]}, step=len(log_probs) - 1)]
    found, shares, pieces = [], attention_by_source_word(effects), case.tokenizer.target_pieces(case.target)
    for number, (word, changes) in enumerate(zip(case.text.split(), effects.source, strict=True)):
        change, least, share = float(changes.sum()), float(changes.min()), float(shares[number])
        if change < OMISSION_LIMIT or not any(map(str.isalnum, word)):
            continue
        says = (
            f"With “{word}” hidden, log p of the translation {describe_change(change)}, and that of "
            f"“{pieces[changes.argmin()]}”, which needs it most, {describe_change(least)}. The word may "
            "have been left out. "
            f"(It gets {share:.1f} times the cross-attention of an average word.)"
        )
        numbers = {"change": change, "least": least, "attention": share, "limit": OMISSION_LIMIT}
        found.append(Finding("omission", says, numbers, step=int(changes.argmax()), word=number))
    return found


def describe_change(change: float) -> str:
    """What a log-probability does."""
    return f"{'falls' if change < 0 else 'rises'} by {abs(change):.2f}"


def attention_by_source_word(effects: ErasureEffects) -> Float[ndarray, " W"]:
    """How much cross-attention each source word gets; an average word gets 1."""
    rows, words = effects.attention.shape
    return effects.attention.sum(axis=0) * words / max(1, rows)


def find_repetitions(case: TranslationCase, effects: ErasureEffects) -> list[Finding]:
    """Words written again from the same part of the source, and a translation that goes round in circles.

    What the source itself repeats may be repeated.
    """
    found, written = [], case.translation.split()
    allowed = max((size for _, _, size in repeated_runs(case.text.split())), default=0)
    for first, second, size in repeated_runs(written):
        a, b = (effects.attention[start : start + size] for start in (first, second))
        share = float(np.minimum(a, b).sum(axis=1).mean())
        if size <= allowed or share < SAME_SOURCE_SHARE:
            continue
        says = (
            f"“{' '.join(written[second : second + size])}” is written twice, from word {first + 1} and from word "
            f"{second + 1} on, with {share:.0%} of its cross-attention on the same words of the source."
        )
        numbers = {"first": first, "second": second, "words": size, "share": share, "limit": SAME_SOURCE_SHARE}
        word = int(np.minimum(a, b).sum(axis=0).argmax())
        found.append(Finding("repetition", says, numbers, step=case.target_words[second].start, word=word))
    if not found and has_repetition(case.target) and not has_repetition(case.source):
        says = "The same pieces stand four times in a row or more, and the source does not repeat itself like that."
        found.append(Finding("repetition", says, {"pieces": len(case.target)}))
    return found


def repeated_runs(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Where the same words stand before and again, and how many: two or more, or a single one at once.

    >>> list(repeated_runs("La casa, la casa la blue blue".split()))
    [(0, 2, 2), (5, 6, 1)]
    """
    plain = ["".join(filter(str.isalnum, word)).casefold() for word in words]
    second = 1
    while second < len(plain):
        sizes = {}
        for first in range(second):
            same = [a == b != "" for a, b in zip(plain[first:second], plain[second:], strict=False)]
            sizes[first] = (*same, False).index(False)
        first = max(sizes, key=lambda each: (sizes[each], each))
        if sizes[first] > 1 or (sizes[first] == 1 and first == second - 1):
            yield first, second, sizes[first]
        second += max(1, sizes[first])


def nothing_found(case: TranslationCase, effects: ErasureEffects) -> Finding:
    """Nothing was seen, and the numbers that say so."""
    source, prefix = effects.whole_source, effects.whole_prefix
    read, changes = case.text.split(), effects.source.sum(axis=1)
    numbers = {"source": source, "prefix": prefix}
    says = (
        "Nothing stands out. With the whole source hidden, log p of the translation "
        f"{describe_change(source)}; with all that "
        f"stands before each of its pieces hidden, it {describe_change(prefix)}."
    )
    if len(read):
        word = int(changes.argmax())
        numbers["least"] = float(changes[word])
        says += f" The word it needs least is “{read[word]}”: with that hidden, it {describe_change(numbers['least'])}."
    return Finding("fine", says, numbers)
