"""Scores of translations: BLEU, chrF and TER by sacreBLEU with their signatures, word error rate, repetition rate."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pellucid.evaluate.score_words import (
    WORDS_BETWEEN_SPACES,
    ScoreWords,
    choose_score_words,
    explain_empty_references,
    explain_tokenized_text,
    has_no_spaces,
    split_characters,
)

# Titles of the metrics by name; a new metric is a line here and one in `make_metric`.
METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "wer": "WER"}
ERROR_RATES = ("ter", "wer")  # metrics whose lower scores are better
# Largest drop of chrF with which a smaller model passes the quality gate, in points of 0 to 100.
LARGEST_DROP = 0.3
LONGEST_NGRAM = 4  # words of the longest n-grams that BLEU counts
NO_NGRAM = "no reference has four words, so BLEU has nothing to count"

# Lists with one reference of each translation; None where a translation has no reference in a
# second or later list.
ReferenceLists = list[list[str | None]]


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str | None]],
    metrics: Iterable[str] = METRICS,
    lowercase: bool = False,
    tokenize: str | None = None,
    language: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the scores of all translations together, each with its signature; `lowercase` ignores case.

    `references` has one text for each translation; or several for each, as sacreBLEU takes them: a
    list with the first reference of every translation, a list with the second, and so on. In a
    second or later list, a blank text or None means that there is no such reference. What counts as
    a word follows from the text of the references, or from `tokenize`, the name of a tokenizer of
    sacreBLEU (see `choose_score_words`, where `language` is explained as well).

    >>> corpus_scores(["the cat sat on mats"], ["the cat sat on the mats"], metrics=["wer"])["wer"]["score"]
    16.666666666666664
    >>> corpus_scores(["黑猫喝牛奶"], ["黑猫喝了牛奶"], metrics=["wer"])["wer"]
    {'score': 16.666666666666664, 'signature': 'nrefs:1|case:mixed|tok:char|edits:levenshtein'}

    Raises ValueError for unequal numbers, for no translations, for references without a word, and
    for a tokenizer that is unknown or not installed.
    """
    streams = reference_lists(references)
    refuse_unequal(len(hypotheses), "translations", streams)
    if not any(reference and reference.strip() for stream in streams for reference in stream):
        raise ValueError("nothing to score: no reference has a word")

    words = choose_score_words((text for stream in streams for text in stream), tokenize, language)

    # A model with tokenizer.lowercase cannot know the case it would have to write: it needs
    # `lowercase`.
    scores = {}
    for name in metrics:
        metric = make_metric(name, lowercase, words)
        # The score first: only then does a metric know the number of references, which its
        # signature names.
        score = metric.corpus_score(hypotheses, streams).score
        scores[name] = {"score": score, "signature": str(metric.get_signature())}

    return scores


def reference_streams(references: Any) -> list[Any]:
    """Return the lists of references, each with one for every translation: those given, or the only one."""
    # A string is iterable, too, but as a reference it is one text.
    if isinstance(references, Iterable) and not isinstance(references, str | bytes):
        references = list(references)
        if (
            references
            and isinstance(references[0], Iterable)
            and not isinstance(references[0], str | bytes)
        ):
            return references
    return [references]


def reference_lists(references: Any) -> ReferenceLists:
    """Return the lists of references, with None for each blank text of a second or later list.

    >>> reference_lists([["a", ""], ["", "b"]])
    [['a', ''], [None, 'b']]
    """
    first, *others = reference_streams(references)
    lists: ReferenceLists = [[text or "" for text in first]]
    for other in others:
        # sacreBLEU leaves None out, but would take a blank text for a reference without words.
        lists.append([text if text is not None and text.strip() else None for text in other])
    return lists


def refuse_unequal(number: int, name: str, streams: Sequence[Sequence[str | None]]) -> None:
    """Raise ValueError for a list of references with another number of texts than what they belong to."""
    for list_number, stream in enumerate(streams, start=1):
        if len(stream) != number:
            list_note = f" in list {list_number} of {len(streams)}" if len(streams) > 1 else ""
            raise ValueError(
                f"{number:,} {name} and {len(stream):,} references{list_note}: each needs the other"
            )


def make_metric(
    name: str, lowercase: bool = False, words: ScoreWords = WORDS_BETWEEN_SPACES
) -> Any:
    """Return sacreBLEU's metric of this name with the settings used here, or our own word error rate.

    BLEU (Papineni et al. 2002; Post 2018) has exponential smoothing and n-grams up to 4; chrF
    (Popović 2015) is F2 of character n-grams up to 6, without spaces; TER (Snover et al. 2006)
    counts edits and phrase shifts in per cent of reference words. `words` says what a word is.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    makers: dict[str, Callable[[], Any]] = {
        # force: sacreBLEU would write its warning of tokenized text into a log;
        # `explain_tokenized_text` says it.
        "bleu": lambda: BLEU(tokenize=words.bleu, force=True, lowercase=lowercase),
        "chrf": lambda: CHRF(lowercase=lowercase),
        "ter": lambda: _make_ter(lowercase, words),
        "wer": lambda: _WordErrorRate(lowercase, words),
    }
    return makers[name]()


def _make_ter(lowercase: bool, words: ScoreWords) -> Any:
    """Return sacreBLEU's TER; where text has no spaces, a tokenizer of sacreBLEU finds its words."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.ter import TER

    ter: Any = TER(case_sensitive=not lowercase)
    if words.ter != "tercom":
        # TER's own option for Asian text splits Chinese characters only: kana, Thai or Khmer would
        # stay whole lines.
        find_case, find_words = ter.tokenizer, BLEU(tokenize=words.ter, force=True).tokenizer
        ter.tokenizer = lambda text: find_words(find_case(text))
        ter.tokenizer_signature = find_words.signature()
    return ter


def metric_signature(
    name: str,
    lowercase: bool = False,
    words: ScoreWords = WORDS_BETWEEN_SPACES,
    references: int | None = 1,
) -> str:
    """Return the signature of a metric; `references` is their number, or None where it varies from line to line."""
    metric = make_metric(name, lowercase, words)
    metric.num_refs = -1 if references is None else references
    return str(metric.get_signature())


def count_references(streams: ReferenceLists) -> int | None:
    """Return how many references each translation has; None where that varies.

    >>> count_references([["a", "b"], ["c", None]]), count_references([["a", "b"], ["c", "d"]])
    (None, 2)
    """
    numbers = {len(texts) - texts.count(None) for texts in zip(*streams, strict=True)}
    return numbers.pop() if len(numbers) == 1 else None


def longest_references(streams: ReferenceLists, words: ScoreWords) -> list[int]:
    """Return for each translation how many words BLEU finds in its longest reference.

    >>> longest_references([["The cat.", "a"], ["The black cat.", None]], WORDS_BETWEEN_SPACES)
    [4, 1]
    """
    find_words = make_metric("bleu", words=words).tokenizer
    longest = [0] * len(streams[0])
    for stream in streams:
        for i, text in enumerate(stream):
            if text is not None:
                longest[i] = max(longest[i], len(find_words(text.rstrip()).split()))
    return longest


def score_notes(
    hypotheses: Sequence[str],
    references: Any,
    tokenize: str | None = None,
    language: str | None = None,
) -> list[str]:
    """Return sentences on what makes scores of these texts doubtful: tokenized text, missing or too short references.

    They also say where a tokenizer that suits the language better is not installed.
    """
    streams = reference_lists(references)
    words = choose_score_words((text for stream in streams for text in stream), tokenize, language)
    too_short = None if has_ngram(streams, words) else NO_NGRAM
    empty = explain_empty_references(streams, hypotheses)
    notes = [words.note, explain_tokenized_text(hypotheses, "translations"), empty, too_short]
    return [note for note in notes if note]


def has_ngram(streams: ReferenceLists, words: ScoreWords) -> bool:
    """Whether a reference has as many words as the longest n-grams of BLEU; where none has, BLEU is always 0."""
    return any(length >= LONGEST_NGRAM for length in longest_references(streams, words))


class _WordErrorRate:
    """Word edits in per cent of the references' words, with the methods of sacreBLEU's metrics that are called here.

    With several references the edits are those to the nearest, and the words the mean of all, as in
    TER. In text without spaces the characters are its words.
    """

    def __init__(self, lowercase: bool = False, words: ScoreWords = WORDS_BETWEEN_SPACES):
        self.case, self.tokenizer = ("lc" if lowercase else "mixed"), words.wer
        self.num_refs = 1  # -1: their number varies, as in sacreBLEU

    def corpus_score(
        self, hypotheses: Sequence[str], references: ReferenceLists
    ) -> SimpleNamespace:
        counts = self._extract_corpus_statistics(hypotheses, references)
        return self._compute_score_from_stats([sum(column) for column in zip(*counts, strict=True)])

    def get_signature(self) -> str:
        references = "var" if self.num_refs == -1 else self.num_refs
        return f"nrefs:{references}|case:{self.case}|tok:{self.tokenizer}|edits:levenshtein"

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: ReferenceLists
    ) -> list[list[float]]:
        """Return the edits of each sentence, and the words of its references."""
        number = count_references(references)
        self.num_refs = -1 if number is None else number
        counts = []
        for hypothesis, *sentence_references in zip(hypotheses, *references, strict=True):
            hypothesis_words = self._find_words(hypothesis)
            given = [text for text in sentence_references if text is not None]
            reference_words = list(map(self._find_words, given))
            edits = min(edit_distance(hypothesis_words, candidate) for candidate in reference_words)
            counts.append([edits, sum(map(len, reference_words)) / len(reference_words)])

        return counts

    def _find_words(self, text: str) -> list[str]:
        text = text.lower() if self.case == "lc" else text
        return split_characters(text) if self.tokenizer == "char" else text.split()

    def _compute_score_from_stats(self, counts: Sequence[float]) -> SimpleNamespace:
        edits, words = counts
        # Against no words at all, any edit is 100 %, as in sacreBLEU's TER.
        return SimpleNamespace(score=100 * (edits / words if words else float(edits > 0)))


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the fewest replacements, insertions and deletions that turn `left` into `right` (Wagner and Fischer 1974).

    >>> edit_distance("kitten", "sitting")
    3
    """
    # From the part of `left` read so far to each prefix of `right`.
    row = list(range(len(right) + 1))
    for i, left_item in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, right_item in enumerate(right, start=1):
            diagonal, row[j] = (
                row[j],
                min(diagonal + (left_item != right_item), row[j] + 1, row[j - 1] + 1),
            )

    return row[-1]


def repetition_rate(texts: Sequence[str]) -> float:
    """Return the share of texts that run in a loop: 1 to 4 words that are repeated three times or more in a row.

    In text without spaces it is 2 to 16 characters.

    >>> repetition_rate(["a dog runs", "a dog a dog a dog runs", "very, very big"])
    0.3333333333333333
    """
    # 0 for no texts, and not a division by zero.
    return sum(map(runs_in_a_loop, texts)) / max(len(texts), 1)


def runs_in_a_loop(text: str) -> bool:
    """Whether a sequence of up to four words is repeated three times or more in a row.

    In text without spaces it is a sequence of 2 to 16 characters, with a letter among them.

    >>> [runs_in_a_loop(text) for text in ("go on, go on, go on, go home", "我喜欢我喜欢我喜欢", "5000000000元")]
    [True, True, False]
    """
    words = text.split()
    for n in range(1, 5):
        if _find_repeated(words, n):
            return True
    if not has_no_spaces([text]):
        return False

    characters = split_characters(text)
    # Not a single character: people write it three times, as in laughter.
    repeated: list[str] = []
    for n in range(2, 17):
        repeated += _find_repeated(characters, n)
    return any(map(str.isalpha, "".join(repeated)))


def _find_repeated(words: Sequence[str], n: int) -> Sequence[str]:
    """Return n words that stand three times in a row; none where there are no such words."""
    matches = 0  # words in a row that equal the word n positions later
    for i, (word, repeat) in enumerate(zip(words, words[n:], strict=False)):
        matches = matches + 1 if word == repeat else 0
        # n words three times in a row give 2 n matches: the last time has no successor.
        if matches == 2 * n:
            return words[i + 1 : i + 1 + n]
    return ()


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
            reasons.append(
                f"chrF falls by {drop:.2f} to {self.chrf_small:.2f}, {LARGEST_DROP} is allowed"
            )
        if self.repetition_small > self.repetition_full:
            reasons.append(
                f"translations that run in a loop rise from {self.repetition_full:.2%} to "
                f"{self.repetition_small:.2%}"
            )
        return reasons

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge_smaller_model(
    full: Sequence[str], small: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> GateVerdict:
    """Compare the translations of the same sentences by the model and by its smaller form.

    With `lowercase`, case is ignored. Raises ValueError for unequal numbers, and for references
    without a word.
    """
    chrf_full = corpus_scores(full, references, ["chrf"], lowercase)["chrf"]["score"]
    chrf_small = corpus_scores(small, references, ["chrf"], lowercase)["chrf"]["score"]
    repetitions = repetition_rate(full), repetition_rate(small)
    return GateVerdict(len(references), chrf_full, chrf_small, *repetitions)
