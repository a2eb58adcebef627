"""Diagnosis: every cause that may have spoiled a translation, with the numbers that speak for it.

The limits were chosen on translations by three models, and on damaged ones: with a word taken out,
or with another sentence's translation in its place. An omission names the cross-attention that the
word gets, but is not decided by it: words whose translation was taken out got as much as others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import fsum
from typing import Any, Literal
from unicodedata import east_asian_width

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from pellucid.data.context import count_context
from pellucid.data.text.word_pieces import strip_word, word_piece_ranges
from pellucid.data.tokenizer import EOS, FORBIDDEN, Tokenizer, strip_eos
from pellucid.decode.alarms import ALARMS
from pellucid.decode.alignment import piece_alignments
from pellucid.decode.request import length_divisor
from pellucid.decode.stages.repetition import has_repetition
from pellucid.decode.torch_engine import CLOSE_CALL, score_targets
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.attribution import erase_prefix, erase_source
from pellucid.interpret.trace.doubt import SURE, Doubt, find_doubt
from pellucid.interpret.trace.facts import SearchTree
from pellucid.interpret.trace.trace import TraceData
from pellucid.model import Transformer

# Nats by which hiding a word must raise log p of the
# translation for it to count as not resting on that word.
_OMISSION_LIMIT = 0.1
# Share that decides about hallucination: a translation may belong to another sentence if hiding its
# source costs less than this share of what it costs to hide, from each piece, those before it.
_HALLUCINATION_LIMIT = 0.4
# Pieces from which, and letters a piece below which, a word counts as cut small by the vocabulary.
MANY_PIECES, SHORT_PIECE = 4, 2.5
# Share of cross-attention that two words must have in common
# to count as written from the same part of the source.
_SAME_SOURCE_SHARE = 0.6
# Nats that a written word must lose with a source word to count as written from it, and first
# letters that two words have in common to count as forms of one.
_OWN_WORD_LOSS, _COMMON_LETTERS = 3.0, 4


_AlarmKind = Literal["copy", "numbers", "names", "length", "omission", "repetition"]


@dataclass(frozen=True)
class _Finding:
    """One finding, in a sentence and in numbers.

    `step` and `word` (of the source) say where to look.
    """

    kind: Literal["doubt", "search", "model", "tokens", "hallucination", "fine"] | _AlarmKind
    says: str
    numbers: dict[str, float]
    step: int | None = None
    word: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the page reads it, without empty fields."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class TranslationVerdict:
    """Findings about a translation, those one can do most about first; one finding of kind "fine" if there are none.

    `erasure_source` has for each source word, `erasure_prefix` for each written piece, how the
    log-probability of each written piece changes when it is hidden
    (`interpret/trace/attribution.py`); None for pieces up to the hidden one.
    """

    findings: list[_Finding]
    reference: str | None
    erasure_source: list[list[float]]
    erasure_prefix: list[list[float | None]]

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as the page reads it."""
        return {**asdict(self), "findings": [finding.as_json() for finding in self.findings]}


@dataclass(frozen=True)
class TranslationCase:
    """A translation with everything needed to question the model about it.

    `source` and `target` are ids, with EOS if there is one; `unknown` says which source pieces are
    unknown. `searched` is true if a search found the translation, free to write anything; `tree`
    holds that search's candidates, and `alarms` come from `find_alarms`.
    """

    model: Transformer
    tokenizer: Tokenizer
    text: str
    source: list[int]
    unknown: list[bool]
    translation: str
    target: list[int]
    searched: bool
    length_penalty: float
    tree: SearchTree | None = None
    alarms: tuple[str, ...] = ()

    @classmethod
    def from_trace(cls, trace: TraceData) -> "TranslationCase":
        """Return the case of a trace."""
        settings = trace.facts.run.search
        return cls(
            model=trace.model,
            tokenizer=trace.tokenizer,
            text=trace.source.text,
            source=trace.source.ids,
            unknown=trace.source.unknown,
            translation=trace.target.text,
            target=trace.target.ids,
            # Under edits, or with a given beginning, the search could not write what it would have
            # written. What was drawn by chance was not searched for.
            searched=not (
                trace.forced or trace.edits or settings["prefix"] or settings["method"] == "sample"
            ),
            length_penalty=float(settings["length_penalty"]),
            tree=trace.tree,
            alarms=tuple(trace.facts.alarms),
        )

    @property
    def source_words(self) -> list[range]:
        """Piece ranges of the source words; words are separated by white space."""
        return word_piece_ranges(self.tokenizer.source_pieces(strip_eos(self.source)), self.text)

    @property
    def target_words(self) -> list[range]:
        """Piece ranges of the words of the translation."""
        pieces = self.tokenizer.target_pieces(strip_eos(self.target))
        return word_piece_ranges(pieces, self.translation)

    def log_probs(self, *targets: list[int]) -> list[list[float]]:
        """Return the log-probability of each piece of each target."""
        with inference_only(self.model):
            return score_targets(self.model, [self.source] * len(targets), list(targets))

    def score_of(self, log_probs: Sequence[float]) -> float:
        """Return the score of a translation whose pieces have these log-probabilities."""
        return fsum(log_probs) / length_divisor(len(log_probs), self.length_penalty)

    def measure_effects(self) -> "ErasureEffects":
        """Measure how the translation depends on each source word and on each of its own pieces."""
        run = self.model, self.source, self.target
        # The last group of each hides a whole side at once. Source groups leave EOS readable.
        all_source, all_target = range(len(strip_eos(self.source))), range(len(self.target))
        source = erase_source(*run, [*self.source_words, all_source])
        prefix = erase_prefix(*run, [*([piece] for piece in all_target), all_target])
        with inference_only(self.model):
            [norms] = piece_alignments(self.model, [self.source], [self.target])  # (L T S)
        without_eos = slice(len(strip_eos(self.target)))
        return ErasureEffects(
            source[:-1],
            prefix[:-1],
            whole_source=float(source[-1, without_eos].sum()),
            whole_prefix=float(prefix[-1, without_eos].sum()),
            attention=self._word_shares(norms.double().numpy()),
        )

    def _word_shares(self, norms: Float[ndarray, "L T S"]) -> Float[ndarray, "N W"]:
        """Return the share of each source word in each target word, in the mean over the layers."""
        source_words, target_words = self.source_words, self.target_words
        # As in alignments, the source pieces of a word are added up and its target pieces averaged.
        word_norms = np.zeros((len(norms), len(target_words), len(source_words)))
        for j, target_word in enumerate(target_words):
            rows = norms[:, target_word.start : target_word.stop]
            for i, source_word in enumerate(source_words):
                # A word may have no pieces: the mean of none would be NaN.
                if target_word and source_word:
                    block = rows[:, :, source_word.start : source_word.stop]
                    word_norms[:, j, i] = block.sum(2).mean(1)

        total = word_norms.sum(axis=2, keepdims=True)
        shares = np.divide(word_norms, total, out=np.zeros_like(word_norms), where=total > 0)
        return shares.mean(axis=0)


def judge_translation(trace: TraceData, reference: str | None = None) -> TranslationVerdict:
    """Judge the translation of a trace.

    With a better reference, say whether search or model is to blame. Raises ValueError for a trace
    of an edited run, which cannot be judged.
    """
    if any(edit.kind != "prefix" for edit in trace.edits):
        raise ValueError(
            "this run was changed, so its translation is not the model's; ask the trace without edits"
        )

    case = TranslationCase.from_trace(trace)
    effects = case.measure_effects()
    findings = [
        *(compare_with_reference(case, reference) if reference is not None else []),
        *describe_doubt(find_doubt(trace)),
        *find_odd_pieces(case),
        # If the translation has little to do with the source
        # at all, single missing words are not worth a finding.
        *(find_hallucination(effects) or find_omissions(case, effects)),
        *find_repetitions(case, effects),
        *find_doubled_words(case, effects),
    ]
    findings += add_alarms(case, findings)

    # Nothing that is hidden changes what was written before it.
    prefix: list[list[float | None]] = []
    for hidden, row in enumerate(effects.prefix.tolist()):
        prefix.append([None] * (hidden + 1) + row[hidden + 1 :])
    return TranslationVerdict(
        findings or [_make_fine_finding(case, effects)],
        reference,
        effects.source.tolist(),
        prefix,
    )


@dataclass(frozen=True)
class ErasureEffects:
    """Changes of the log-probability of each written piece when a source word, or an earlier piece, is hidden.

    `whole_source` and `whole_prefix` are the sums of these changes, without the change of EOS, when
    all of a side is hidden at once. `attention` has for each word of the translation the share of
    each source word in what cross-attention moved while it was written.
    """

    source: Float[ndarray, "W T"]
    prefix: Float[ndarray, "T T"]
    whole_source: float
    whole_prefix: float
    attention: Float[ndarray, "N W"]


def describe_doubt(doubt: Doubt | None) -> list[_Finding]:
    """Return the finding about the word that the model was least sure of, if there is one."""
    if doubt is None:
        return []
    says = f"The model was least sure of “{doubt.text}” ({doubt.prob:.0%}). "
    if not doubt.instead:
        says += f"Instead the translation could have ended there ({doubt.instead_prob:.0%})."
    elif doubt.instead_prob > doubt.prob:
        says += f"“{doubt.instead}” was likelier at that place ({doubt.instead_prob:.0%})."
    else:
        says += f"Instead it could have been “{doubt.instead}” ({doubt.instead_prob:.0%})."

    numbers = {"prob": doubt.prob, "instead": doubt.instead_prob, "limit": SURE}
    return [_Finding("doubt", says, numbers, step=doubt.step)]


def compare_with_reference(case: TranslationCase, reference: str) -> list[_Finding]:
    """Find out whether the search missed the reference or the model would not write it.

    Nothing if neither is certain. Raises ValueError for a reference that is blank, or longer than
    the model takes.
    """
    [ids] = case.tokenizer.encode_target([reference])
    if len(ids) < 2:  # EOS alone
        raise ValueError("the reference is blank; write one, or leave it out")
    if len(ids) > case.model.config.max_positions:
        raise ValueError(
            f"the reference has {len(ids)} pieces, this model takes {case.model.config.max_positions}"
        )

    # Compared as text: other pieces that spell the same are the same translation.
    if case.tokenizer.decode_target(ids) == case.tokenizer.decode_target(case.target):
        return []
    if unknown := sum(piece in FORBIDDEN for piece in ids):
        says = f"Of the {len(ids)} pieces of the reference, {unknown} are unknown: this vocabulary cannot write it."
        return [_Finding("tokens", says, {"pieces": len(ids), "unknown": unknown})]

    log_probs, reference_log_probs = case.log_probs(case.target, ids)
    score = case.score_of(log_probs)
    reference_score = case.score_of(reference_log_probs)
    numbers = {"score": score, "reference_score": reference_score}
    if case.searched and case.target[-1] != EOS:
        says = (
            f"The search was cut off at {len(log_probs)} pieces, before any translation ended; the reference has "
            f"{len(ids)} pieces."
        )
        return [_Finding("search", says, numbers, step=len(log_probs) - 1)]

    # Differences up to CLOSE_CALL may be rounding, and say nothing about who is to blame.
    if case.searched and reference_score - score > CLOSE_CALL:
        step, how = where_search_lost(case, ids)
        says = (
            f"The model gives the reference the score {reference_score:.2f} and this translation {score:.2f}: the "
            f"search missed the reference. {how}"
        )
        return [_Finding("search", says, numbers, step=min(step, len(log_probs) - 1))]

    step = _first_difference(case.target, ids)
    if score - reference_score > CLOSE_CALL and step < len(log_probs):
        [piece] = case.tokenizer.target_pieces(case.target[step : step + 1])
        [reference_piece] = case.tokenizer.target_pieces(ids[step : step + 1])
        says = (
            f"The model itself prefers its own translation (score {score:.2f}, the reference "
            f"{reference_score:.2f}), so a wider search would not help; it has to learn the other one. They first "
            f"differ at piece {step + 1}, where the log p of "
            f"“{piece}” is {log_probs[step]:.2f} and that of “{reference_piece}” is {reference_log_probs[step]:.2f}."
        )
        numbers |= {"log_prob": log_probs[step], "reference_log_prob": reference_log_probs[step]}
        return [_Finding("model", says, numbers, step=step)]

    return []


def _first_difference(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the first position where two translations differ, which may be the end of one of them."""
    for n, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return n
    return min(len(a), len(b))


def where_search_lost(case: TranslationCase, ids: Sequence[int]) -> tuple[int, str]:
    """Return the step in which the search dropped a translation, and how.

    Without a tree, the first difference.
    """
    if case.tree is None:
        step = _first_difference(case.target, ids)
        return step, f"They first differ at piece {step + 1}."

    nodes = {(node.parent, node.piece_id): node for node in case.tree.nodes}
    parent = None
    candidates = f"{case.tree.candidates} candidates, of which the beam keeps {case.tree.width}"
    for step, (token, piece) in enumerate(zip(ids, case.tokenizer.target_pieces(ids), strict=True)):
        node = nodes.get((parent, token))
        if node is None and step > max(existing.step for existing in case.tree.nodes):
            return step, f"The search ended before its piece {step + 1}, “{piece}”."
        dropped = f"It was dropped at piece {step + 1}, “{piece}”"
        if node is None:
            return step, f"{dropped}, which was not among the {candidates}."
        if node.fate == "pruned":
            return step, f"{dropped}, which was number {node.rank} of {candidates}."
        parent = node.id

    return len(ids) - 1, "The search completed it as well."


def find_odd_pieces(case: TranslationCase) -> list[_Finding]:
    """Find source words with a character that no piece covers, or cut into many small pieces."""
    findings = []
    for number, (word, span) in enumerate(zip(case.text.split(), case.source_words, strict=True)):
        unknown = sum(case.unknown[span.start : span.stop])
        pieces = case.tokenizer.source_pieces(case.source[span.start : span.stop])
        # Pieces without letters, such as digits or the mark of a word's beginning, say nothing
        # about how it is cut.
        letter_counts = [count for count in map(_count_letters, pieces) if count]
        size = sum(letter_counts) / max(1, len(letter_counts))
        if unknown:
            says = f"Of the {len(span)} pieces of “{word}”, {unknown} are unknown or bytes: it has a rare character."
        elif len(letter_counts) >= MANY_PIECES and size < SHORT_PIECE:
            says = f"“{word}” is cut into {len(span)} pieces, of {size:.1f} letters each: it is rare, or misspelled."
        else:
            continue

        numbers = {"pieces": len(span), "unknown": unknown, "letters_per_piece": size}
        findings.append(_Finding("tokens", says, numbers, word=number))

    return findings


def _count_letters(piece: str) -> int:
    """Return how many letters a piece has, without those that stand for words or syllables.

    A byte has none.

    >>> _count_letters("▁ball"), _count_letters("<0x41>"), _count_letters("7"), _count_letters("球")
    (4, 0, 0, 0)
    """
    if piece.startswith("<"):
        return 0
    return sum(x.isalpha() and east_asian_width(x) not in "WF" for x in piece)


# Kind of finding that an alarm is, where another
# finding may have said it already, with its numbers.
_KINDS_OF_ALARMS: dict[str, _AlarmKind] = {
    "empty": "omission",
    "copy": "copy",
    "numbers": "numbers",
    "names": "names",
    "repeats": "repetition",
    "length": "length",
    "sentences": "omission",
}


def add_alarms(case: TranslationCase, findings: Sequence[_Finding]) -> list[_Finding]:
    """Return a finding for each alarm that the findings do not tell yet."""
    told = {finding.kind for finding in findings}
    added = []
    for name in case.alarms:
        if _KINDS_OF_ALARMS[name] not in told:
            says = f"{ALARMS[name][0].upper()}{ALARMS[name][1:]}."
            added.append(_Finding(_KINDS_OF_ALARMS[name], says, {}))
    return added


def find_hallucination(effects: ErasureEffects) -> list[_Finding]:
    """Find out whether the translation owes little to its source, compared with what it owes to itself."""
    source, prefix = effects.whole_source, effects.whole_prefix
    if -source >= _HALLUCINATION_LIMIT * max(-prefix, 0.0):
        return []
    says = (
        f"If the whole source is hidden, log p of the translation {_describe_change(source)}; if all pieces before "
        f"each written piece are hidden, it {_describe_change(prefix)}. The translation may have little to do with "
        "this source."
    )
    return [
        _Finding(
            "hallucination",
            says,
            {"source": source, "prefix": prefix, "limit": _HALLUCINATION_LIMIT},
        )
    ]


def find_omissions(case: TranslationCase, effects: ErasureEffects) -> list[_Finding]:
    """Find source words without which the translation would be likelier, or a source that was not translated."""
    if not case.translation.strip():
        [log_probs] = case.log_probs(case.target)
        says = (
            "Nothing was written: the model ended the translation at once, with log p "
            f"{log_probs[-1]:.2f} of EOS, the end token."
        )
        return [_Finding("omission", says, {"log_prob": log_probs[-1]}, step=len(log_probs) - 1)]

    findings, pieces = [], case.tokenizer.target_pieces(case.target)
    # How much cross-attention each source word gets; an average word gets 1.
    rows, words = effects.attention.shape
    shares = effects.attention.sum(axis=0) * words / max(1, rows)

    # Words of the sentence before are read, not translated.
    context = count_context(case.source)
    rows = zip(case.text.split(), case.source_words, effects.source, strict=True)
    for number, (word, span, changes) in enumerate(rows):
        if span.stop <= context:
            continue
        change, least, share = float(changes.sum()), float(changes.min()), float(shares[number])
        # Punctuation may well be left out.
        if change < _OMISSION_LIMIT or not any(map(str.isalnum, word)):
            continue
        says = (
            f"If “{word}” is hidden, log p of the translation {_describe_change(change)}, and log p of "
            f"“{pieces[changes.argmin()]}”, which depends on it most, {_describe_change(least)}. The word may "
            f"have been left out. (It gets {share:.1f} times the cross-attention of an average word.)"
        )
        numbers = {"change": change, "least": least, "attention": share, "limit": _OMISSION_LIMIT}
        step = int(changes.argmax())
        findings.append(_Finding("omission", says, numbers, step=step, word=number))

    return findings


def _describe_change(change: float) -> str:
    """Say how a log-probability changes."""
    return f"{'falls' if change < 0 else 'rises'} by {abs(change):.2f}"


def find_repetitions(case: TranslationCase, effects: ErasureEffects) -> list[_Finding]:
    """Find words written again from the same part of the source, and a translation that keeps repeating itself."""
    findings, words = [], case.translation.split()
    # What the source itself repeats may be repeated.
    allowed = max((size for _, _, size in repeated_runs(case.text.split())), default=0)
    for first, second, size in repeated_runs(words):
        a = effects.attention[first : first + size]
        b = effects.attention[second : second + size]
        share = float(np.minimum(a, b).sum(axis=1).mean())
        if size <= allowed or share < _SAME_SOURCE_SHARE:
            continue
        says = (
            f"“{' '.join(words[second : second + size])}” is written twice, from word {first + 1} and from word "
            f"{second + 1} on, with {share:.0%} of its cross-attention on the same words of the source."
        )
        numbers = {
            "first": first,
            "second": second,
            "words": size,
            "share": share,
            "limit": _SAME_SOURCE_SHARE,
        }
        word = int(np.minimum(a, b).sum(axis=0).argmax())
        step = case.target_words[second].start
        findings.append(_Finding("repetition", says, numbers, step=step, word=word))

    if not findings and has_repetition(case.target) and not has_repetition(case.source):
        says = (
            "The same pieces are written four or more times in a row, and the source does not "
            "repeat itself like that."
        )
        findings.append(_Finding("repetition", says, {"pieces": len(case.target)}))

    return findings


def find_doubled_words(case: TranslationCase, effects: ErasureEffects) -> list[_Finding]:
    """Find source words that were written twice, apart from each other, as in *cerraron la puerta cerradas*.

    Hiding the source word costs both written words dearly, more than hiding any other, and they
    begin alike: one word is often translated by several that do not.
    """
    spans, words = case.target_words, case.translation.split()
    if not spans or not len(effects.source):
        return []

    # Nats that each written word loses when a source word is hidden: (W N).
    effects_of_words = [effects.source[:, span.start : span.stop].sum(axis=1) for span in spans]
    losses = -np.stack(effects_of_words, axis=1)
    owners = losses.argmax(axis=0)

    findings = []
    for number, source_word in enumerate(case.text.split()):
        is_own = (owners == number) & (losses[number] > _OWN_WORD_LOSS)
        written = np.flatnonzero(is_own).tolist()
        for first, second in combinations(written, 2):
            if second - first == 1 or not _begin_alike(words[first], words[second]):
                continue
            one, other = losses[number, first], losses[number, second]
            says = (
                f"“{source_word}” was written twice: if it is hidden, log p of “{words[first]}” falls by {one:.2f} and "
                f"log p of “{words[second]}” by {other:.2f}, more than if any other word is."
            )
            numbers = {"first": float(one), "second": float(other), "limit": _OWN_WORD_LOSS}
            step = spans[second].start
            findings.append(_Finding("repetition", says, numbers, step=step, word=number))

    return findings


def _begin_alike(a: str, b: str) -> bool:
    """Whether two words are one, or forms of one, as far as their beginnings tell.

    >>> _begin_alike("cerraron", "Cerradas."), _begin_alike("y", "y"), _begin_alike("los", "libros")
    (True, True, False)
    """
    one, other = strip_word(a).casefold(), strip_word(b).casefold()
    return one[:_COMMON_LETTERS] == other[:_COMMON_LETTERS]


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
        # The longest run, and of equal ones the nearest.
        first = max(sizes, key=lambda start: (sizes[start], start))
        if sizes[first] > 1 or (sizes[first] == 1 and first == second - 1):
            yield first, second, sizes[first]
        second += max(1, sizes[first])


def _make_fine_finding(case: TranslationCase, effects: ErasureEffects) -> _Finding:
    """Return the finding that nothing stands out, with the numbers that say so."""
    source, prefix = effects.whole_source, effects.whole_prefix
    words, changes = case.text.split(), effects.source.sum(axis=1)
    numbers = {"source": source, "prefix": prefix}
    says = (
        "Nothing stands out. If the whole source is hidden, log p of the translation "
        f"{_describe_change(source)}; if all pieces before each written piece are hidden, it "
        f"{_describe_change(prefix)}."
    )
    if len(words):
        word = int(changes.argmax())
        numbers["least"] = float(changes[word])
        says += (
            f" The translation depends least on “{words[word]}”: if that word is hidden, its log p "
            f"{_describe_change(numbers['least'])}."
        )

    return _Finding("fine", says, numbers)
