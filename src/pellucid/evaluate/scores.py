"""Scores of translations: BLEU, chrF and TER by sacreBLEU with their signatures, word error rate, repetition rate."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

# Titles of the metrics by name; a new metric is a line here and one in `make_metric`.
METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "wer": "WER"}
ERROR_RATES = ("ter", "wer")  # metrics of which a lower score is better
LARGEST_DROP = 0.3  # largest drop of chrF with which a smaller model passes the quality gate, in points of 0 to 100


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    metrics: Iterable[str] = METRICS,
    lowercase: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the scores of all translations together, each with its signature; `lowercase` ignores case.

    `references` has one text for each translation; or several for each, as sacreBLEU takes them: a list with the first
    reference of every translation, a list with the second, and so on.

    >>> corpus_scores(["the cat sat on mats"], ["the cat sat on the mats"], metrics=["wer"])["wer"]["score"]
    16.666666666666664

    Raises ValueError for unequal numbers, for no translations, and for references without a word.
    """
    streams = reference_streams(references)
    refuse_unequal(len(hypotheses), "translations", streams)
    if not any(reference.strip() for stream in streams for reference in stream):
        raise ValueError("nothing to score: no reference has a word")
    # A model with tokenizer.lowercase cannot know the case it would have to write: it needs `lowercase`.
    scores = {}
    for name in metrics:
        metric = make_metric(name, lowercase)
        # The score first: only then does a metric know the number of references, which its signature names.
        score = metric.corpus_score(hypotheses, streams).score
        scores[name] = {"score": score, "signature": str(metric.get_signature())}
    return scores


def reference_streams(references: Any) -> list[Any]:
    """Return the lists of references, each with one for every translation: those given, or the only one."""
    # A string is iterable, too, but as a reference it is one text.
    if isinstance(references, Iterable) and not isinstance(references, str | bytes):
        references = list(references)
        if references and isinstance(references[0], Iterable) and not isinstance(references[0], str | bytes):
            return references
    return [references]


def refuse_unequal(number: int, name: str, streams: Sequence[Sequence[str]]) -> None:
    """Raise ValueError for a list of references with another number of texts than what they belong to."""
    for list_number, stream in enumerate(streams, start=1):
        if len(stream) != number:
            list_note = f" in list {list_number} of {len(streams)}" if len(streams) > 1 else ""
            raise ValueError(f"{number:,} {name} and {len(stream):,} references{list_note}: each needs the other")


def make_metric(name: str, lowercase: bool = False) -> Any:
    """Return sacreBLEU's metric of this name with the settings used here, or our own word error rate.

    BLEU (Papineni et al. 2002; Post 2018) has tokenizer 13a, exponential smoothing and n-grams up to 4; chrF (Popović
    2015) is F2 of character n-grams up to 6, without spaces; TER (Snover et al. 2006) counts edits and phrase shifts in
    per cent of reference words.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    makers: dict[str, Callable[[], Any]] = {
        # force: sacreBLEU would warn of text that looks tokenised, and score it just the same.
        "bleu": lambda: BLEU(tokenize="13a", force=True, lowercase=lowercase),
        "chrf": lambda: CHRF(lowercase=lowercase),
        "ter": lambda: TER(case_sensitive=not lowercase),
        "wer": lambda: _WordErrorRate(lowercase),
    }
    return makers[name]()


class _WordErrorRate:
    """Word edits in per cent of the references' words, with the methods of sacreBLEU's metrics that are called here.

    With several references the edits are those to the nearest, and the words the mean of all, as in TER.
    """

    def __init__(self, lowercase: bool = False):
        self.case, self.references = ("lc" if lowercase else "mixed"), 1

    def corpus_score(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> SimpleNamespace:
        self.references = len(references)
        counts = self._extract_corpus_statistics(hypotheses, references)
        return self._compute_score_from_stats([sum(column) for column in zip(*counts, strict=True)])

    def get_signature(self) -> str:
        return f"nrefs:{self.references}|case:{self.case}|tok:whitespace|edits:levenshtein"

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the edits of each sentence, and the words of its references."""
        case = str.lower if self.case == "lc" else str
        counts = []
        for hypothesis, *sentence_references in zip(hypotheses, *references, strict=True):
            hypothesis_words = case(hypothesis).split()
            reference_words = [case(reference).split() for reference in sentence_references]
            edits = min(edit_distance(hypothesis_words, candidate) for candidate in reference_words)
            counts.append([edits, sum(map(len, reference_words)) / len(reference_words)])
        return counts

    def _compute_score_from_stats(self, counts: Sequence[float]) -> SimpleNamespace:
        edits, words = counts
        # Against no words at all, any edit is 100 %, as in sacreBLEU's TER.
        return SimpleNamespace(score=100 * (edits / words if words else float(edits > 0)))


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the fewest replacements, insertions and deletions that turn `left` into `right` (Wagner and Fischer 1974).

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(right) + 1))  # from the part of `left` read so far to each prefix of `right`
    for i, left_item in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, right_item in enumerate(right, start=1):
            diagonal, row[j] = row[j], min(diagonal + (left_item != right_item), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def repetition_rate(texts: Sequence[str]) -> float:
    """Return the share of texts that run in a loop: 1 to 4 words that are repeated three times or more in a row.

    >>> repetition_rate(["a dog runs", "a dog a dog a dog runs", "very, very big"])
    0.3333333333333333
    """
    # 0 for no texts, and not a division by zero.
    return sum(map(runs_in_a_loop, texts)) / max(len(texts), 1)


def runs_in_a_loop(text: str) -> bool:
    """Whether a sequence of up to four words is repeated three times or more in a row."""
    words = text.split()
    for n in range(1, 5):
        matches = 0  # words in a row that equal the word n positions later
        for word, repeat in zip(words, words[n:], strict=False):
            matches = matches + 1 if word == repeat else 0
            # n words three times in a row give 2 n matches: the last time has no successor.
            if matches == 2 * n:
                return True
    return False


@dataclass(frozen=True)
class GateVerdict:
    """chrF and repetition rate of the whole model and of its smaller form."""

    sentences: int
    chrf_full: float
    chrf_small: float
    repetition_full: float
    repetition_small: float

    @property
    def reasons(self) -> list[str]:
        """Reasons to refuse the smaller form; none when it passes."""
        reasons = []
        if self.chrf_full - self.chrf_small > LARGEST_DROP:
            drop = self.chrf_full - self.chrf_small
            reasons.append(f"chrF falls by {drop:.2f} to {self.chrf_small:.2f}, {LARGEST_DROP} is allowed")
        if self.repetition_small > self.repetition_full:
            reasons.append(
                f"translations that run in a loop rise from {self.repetition_full:.2%} to {self.repetition_small:.2%}"
            )
        return reasons

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge_smaller_model(
    full: Sequence[str], small: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> GateVerdict:
    """Compare the translations of the same sentences by the model and by its smaller form; `lowercase` ignores case.

    Raises ValueError for unequal numbers, and for references without a word.
    """
    scores = (corpus_scores(texts, references, ["chrf"], lowercase)["chrf"] for texts in (full, small))
    chrf_full, chrf_small = (score["score"] for score in scores)
    return GateVerdict(len(references), chrf_full, chrf_small, repetition_rate(full), repetition_rate(small))
