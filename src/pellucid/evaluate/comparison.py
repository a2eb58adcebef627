"""Comparison of two translations of a test set: which is better, how certainly, and where."""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pellucid.evaluate.score_words import (
    WORDS_BETWEEN_SPACES,
    ScoreWords,
    choose_score_words,
    explain_empty_references,
    explain_tokenized_text,
    has_no_spaces,
    split_characters,
)
from pellucid.evaluate.scores import (
    ERROR_RATES,
    LONGEST_NGRAM,
    METRICS,
    NO_NGRAM,
    count_references,
    longest_references,
    make_metric,
    metric_signature,
    reference_lists,
)

# Sentences below which resampling is not trusted: of one sentence, every sample is the same.
FEWEST_SENTENCES = 30
_SIGNIFICANCE_LEVEL = 0.05  # p-value below which a difference counts as significant
# Lengths in words at which a group may end.
_BUCKET_ENDS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200)
_SMALLEST_BUCKET = 0.1  # smallest share of the sentences that a group of lengths has
# Last count of each group by occurrences in the training text, except for the last group.
_FREQUENCY_ENDS = (0, 9, 99)
# Last count of each group by number of lone words, except for the last group.
_LONE_WORD_ENDS = (0, 1, 2)
# Names of groups with the indices of their sentences; no group is empty.
Groups = dict[str, list[int]]
# Array with a row for each sentence or sum of sentences, and a column for each count.
CountRows = np.ndarray


@dataclass(frozen=True)
class Interval:
    """A score and the 95 % confidence interval around it."""

    score: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedScore:
    """One metric of A and of B, their difference B minus A, and how certain it is."""

    title: str
    a: Interval
    b: Interval
    difference: Interval
    p_value: float
    better: str | None  # "A" or "B" where the samples can tell them apart, otherwise None
    verdict: str
    signature: str
    lower_is_better: bool
    is_defined: bool = True  # False for BLEU where no reference has four words


@dataclass(frozen=True)
class ScoredBucket:
    """A group of sentences and its scores, first the scores of A, then the scores of B."""

    name: str
    sentences: int
    bleu: tuple[float, float] | None  # None where no reference of the group has four words
    chrf: tuple[float, float]


@dataclass(frozen=True)
class Grouping:
    """One way to group the sentences, with its title and its groups."""

    title: str
    buckets: list[ScoredBucket]


@dataclass(frozen=True)
class ChangedSentence:
    """A sentence whose translations differ in chrF; lines are counted from 1."""

    line: int
    source: str | None
    reference: str
    a: str
    b: str
    chrf_a: float
    chrf_b: float

    @property
    def difference(self) -> float:
        """chrF of B minus chrF of A."""
        return self.chrf_b - self.chrf_a


@dataclass(frozen=True)
class Comparison:
    """All results of comparing A and B on one test set; differences are B minus A."""

    a: str
    b: str
    sentences: int
    identical: int  # sentences whose translations are the same in both, character by character
    samples: int
    seed: int
    scores: dict[str, PairedScore]  # scores by metric: "bleu", "chrf", "ter", "wer"
    groupings: dict[str, Grouping]  # groupings by name: "length", "rare_words"
    gained: list[ChangedSentence]  # sentences where B is most above A, by chrF of the sentence
    lost: list[ChangedSentence]  # sentences where B is most below A
    unit: str = "words"  # "words", or "characters" where the references are written without spaces
    # Sentences on texts that may not have been scored as they should be.
    notes: tuple[str, ...] = ()


def compare_translations(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str | None]],
    sources: Sequence[str] | None = None,
    *,
    training: Iterable[str] | None = None,
    names: tuple[str, str] = ("A", "B"),
    samples: int = 1000,
    seed: int = 1,
    show: int = 10,
    lowercase: bool = False,
    tokenize: str | None = None,
    language: str | None = None,
) -> Comparison:
    """Compare the translations `a` and `b` of the same sentences; `lowercase` ignores their case.

    `references`, `tokenize` and `language` are as for `corpus_scores`; where there are several
    references, groups are made by the first. `training` is the target side of the training text,
    which shows what words are rare; without it, words are counted in the references. `samples` test
    sets are drawn, and at most `show` sentences kept in each direction. Raises ValueError for
    unequal numbers of lines, for references without a word, for numbers out of range, and for a
    tokenizer that is unknown or not installed.
    """
    streams = reference_lists(references)
    first = [text or "" for text in streams[0]]
    sizes = {"samples": (samples, 1), "seed": (seed, 0), "show": (show, 0)}
    _refuse_unfit_input(a, b, streams, sources, sizes)

    # Counted once: scores, groups and changed sentences are all made from sums of these rows.
    words = choose_score_words((text for stream in streams for text in stream), tokenize, language)
    counts: dict[str, tuple[CountRows, CountRows]] = {}
    for name in METRICS:
        counts_a = sentence_counts(name, a, streams, lowercase, words)
        counts_b = sentence_counts(name, b, streams, lowercase, words)
        counts[name] = counts_a, counts_b
    has_ngram = [length >= LONGEST_NGRAM for length in longest_references(streams, words)]

    scores, references_each = {}, count_references(streams)
    for name in METRICS:
        counts_a, counts_b = counts[name]
        options = {"lowercase": lowercase, "words": words, "references": references_each}
        scores[name] = compare_metric(name, counts_a, counts_b, samples, seed, **options)

    if not any(has_ngram):
        scores["bleu"] = replace(scores["bleu"], is_defined=False, better=None, verdict=NO_NGRAM)

    groupings = {}
    for name, (title, members) in (
        ("length", _length_groups(first, sources)),
        ("rare_words", _rare_word_groups(first, training, lowercase)),
    ):
        groupings[name] = Grouping(title, _score_groups(members, counts, has_ngram))

    changes = _find_changes(a, b, first, sources, *counts["chrf"])
    notes = (
        words.note,
        explain_tokenized_text(a, "translations in A"),
        explain_tokenized_text(b, "translations in B"),
        explain_empty_references(streams, a, b),
    )
    return Comparison(
        *names,
        sentences=len(first),
        identical=sum(text_a == text_b for text_a, text_b in zip(a, b, strict=True)),
        samples=samples,
        seed=seed,
        scores=scores,
        groupings=groupings,
        gained=[change for change in changes if change.difference > 0][:show],
        lost=[change for change in changes if change.difference < 0][:show],
        unit="characters" if has_no_spaces(first) else "words",
        notes=tuple(filter(None, notes)),
    )


def _refuse_unfit_input(
    a: Sequence[str],
    b: Sequence[str],
    streams: Sequence[Sequence[str | None]],
    sources: Sequence[str] | None,
    sizes: Mapping[str, tuple[int, int]],
) -> None:
    """Raise ValueError for texts that do not belong together, and numbers below the least allowed.

    `sizes` has such numbers by name, each with its least.
    """
    numbers = {"references": len(streams[0])}
    for i, stream in enumerate(streams[1:], start=2):
        numbers[f"references in list {i}"] = len(stream)
    numbers |= {"translations in A": len(a), "translations in B": len(b)}
    if sources is not None:
        numbers["sources"] = len(sources)

    problems = []
    if len(set(numbers.values())) > 1:
        listing = ", ".join(f"{number:,} {name}" for name, number in numbers.items())
        problems.append(f"{listing}: each needs its own")
    # Scores relative to the words or characters of the references would be undefined.
    if not any(text and text.strip() for stream in streams for text in stream):
        problems.append("no reference has a word")
    for name, (value, least) in sizes.items():
        if value < least:
            problems.append(f"{name} is {value}, it must be {least} or more")
    if problems:
        raise ValueError(f"nothing to compare: {'; '.join(problems)}")


def _find_changes(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None,
    counts_a: CountRows,
    counts_b: CountRows,
) -> list[ChangedSentence]:
    """Return the sentences whose translations differ in chrF, those that differ most first."""
    chrf_a, chrf_b = score_sums("chrf", counts_a), score_sums("chrf", counts_b)
    changes = []
    # Translations may differ and have the same chrF: those are neither gained nor lost.
    for i in np.flatnonzero(chrf_a != chrf_b).tolist():
        source, scores = sources[i] if sources else None, (float(chrf_a[i]), float(chrf_b[i]))
        changes.append(ChangedSentence(i + 1, source, references[i], a[i], b[i], *scores))
    changes.sort(key=lambda change: -abs(change.difference))
    return changes


def _length_groups(references: Sequence[str], sources: Sequence[str] | None) -> tuple[str, Groups]:
    """Group by the length of the sources, or of the references without them; with a title."""
    side, texts = ("reference", references) if sources is None else ("source", sources)
    # Between spaces, a sentence of Chinese would be one word.
    if has_no_spaces(texts):
        return f"length of the {side}, in characters", group_by_length(texts, split_characters)
    return f"length of the {side}, in words", group_by_length(texts)


def _rare_word_groups(
    references: Sequence[str], training: Iterable[str] | None, lowercase: bool = False
) -> tuple[str, Groups]:
    """Group by rare words, counted in the training text or else in the references; with a title."""
    if lowercase:
        references = [line.lower() for line in references]
        # A generator: the training text may be large, and is read line by line.
        training = None if training is None else (line.lower() for line in training)

    unit, split = "word", plain_words
    if has_no_spaces(references):
        unit, split = "character", _split_letters
    if training is None:
        title = f"{unit}s of the reference that occur only once in all references"
        return title, group_by_lone_words(references, split)

    title = f"how often the rarest {unit} of the reference occurs in the training text"
    return title, group_by_rarest_word(references, training, split)


def _score_groups(
    groups: Groups, counts: dict[str, tuple[CountRows, CountRows]], has_ngram: Sequence[bool]
) -> list[ScoredBucket]:
    """Return BLEU and chrF of the sentences of each group.

    `has_ngram` says of each sentence whether a reference of it has as many words as the longest
    n-grams of BLEU.
    """

    def score_pair(metric: str, members: list[int]) -> tuple[float, float]:
        # Counts are summed before they are scored: a group's BLEU is not the mean of its sentences'
        # BLEU.
        a, b = (rows[members].sum(axis=0, keepdims=True) for rows in counts[metric])
        return float(score_sums(metric, a)[0]), float(score_sums(metric, b)[0])

    buckets = []
    for name, members in groups.items():
        # Without a run of four words even a perfect translation would have a BLEU of 0.
        is_defined = any(has_ngram[i] for i in members)
        bleu = score_pair("bleu", members) if is_defined else None
        buckets.append(ScoredBucket(name, len(members), bleu, chrf=score_pair("chrf", members)))

    return buckets


def sentence_counts(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str | None]],
    lowercase: bool = False,
    words: ScoreWords | None = None,
) -> CountRows:
    """Return the counts of every sentence; a sum of rows is scored as those sentences together.

    Without `words`, the text of the references decides what a word is.
    """
    streams = reference_lists(references)
    if words is None:
        words = choose_score_words(text for stream in streams for text in stream)
    # What sacrebleu.significance calls. Its own PairedTest has no interval of the difference and no
    # ends of the others, takes its seed from the environment, and finds two equal translations
    # different (p is never 1).
    counts = make_metric(metric, lowercase, words)._extract_corpus_statistics(hypotheses, streams)
    return np.array(counts, np.float64)


def score_sums(metric: str, sums: CountRows) -> CountRows:
    """Return the score of each row of sums, in per cent."""
    # Case and all else is in the counts.
    score = make_metric(metric)._compute_score_from_stats
    # Lists, as sacreBLEU takes numbers of numpy one by one, which is slow.
    return np.array([score(row).score for row in sums.tolist()])


def compare_metric(
    metric: str,
    a: CountRows,
    b: CountRows,
    samples: int,
    seed: int,
    lowercase: bool = False,
    words: ScoreWords = WORDS_BETWEEN_SPACES,
    references: int | None = 1,
) -> PairedScore:
    """Compare A and B by one metric, from the counts of every sentence.

    `lowercase`, `words` and the number of `references` (None if it varies) say how the counts were
    made.
    """
    width = a.shape[1]
    # One draw for both: that is what pairs them.
    sums = resample_sums(np.hstack([a, b]), samples, seed)
    drawn_a, drawn_b = score_sums(metric, sums[:, :width]), score_sums(metric, sums[:, width:])
    [score_a] = score_sums(metric, a.sum(axis=0, keepdims=True))
    [score_b] = score_sums(metric, b.sum(axis=0, keepdims=True))

    difference = _confidence_interval(score_b - score_a, drawn_b - drawn_a)
    p = p_value(difference.score, drawn_b - drawn_a)
    better = _find_winner(difference, p, len(a), metric in ERROR_RATES)
    return PairedScore(
        title=METRICS[metric],
        a=_confidence_interval(score_a, drawn_a),
        b=_confidence_interval(score_b, drawn_b),
        difference=difference,
        p_value=p,
        better=better,
        verdict=_describe_winner(better, difference, p, samples, len(a)),
        signature=metric_signature(metric, lowercase, words, references),
        lower_is_better=metric in ERROR_RATES,
    )


def _confidence_interval(score: float, sample_scores: CountRows) -> Interval:
    """Return the score with the interval that leaves out a fortieth of the samples at each end."""
    ordered, cut = np.sort(sample_scores), len(sample_scores) // 40
    return Interval(float(score), float(ordered[cut]), float(ordered[len(sample_scores) - 1 - cut]))


def p_value(difference: float, sample_differences: CountRows) -> float:
    """Return how often samples differ by chance as much as the test set, with their mean at 0."""
    sizes = np.abs(sample_differences)
    # sacreBLEU's paired bootstrap has > here; with >=, ties count as chance, and A against itself
    # has p = 1.
    by_chance = int(np.count_nonzero(sizes - sizes.mean() >= abs(difference)))
    # The test set itself counts as one of the samples, so that p is never 0.
    return (by_chance + 1) / (len(sample_differences) + 1)


def _find_winner(
    difference: Interval, p: float, sentences: int, lower_is_better: bool
) -> str | None:
    """Return which is better, A or B, where p and the interval of the difference agree, or None."""
    # Both are asked: this p counts one side once the samples agree on it, and alone would name a
    # winner too often.
    may_be_zero = p >= _SIGNIFICANCE_LEVEL or difference.low <= 0 <= difference.high
    if sentences < FEWEST_SENTENCES or may_be_zero:
        return None
    return "B" if (difference.score > 0) != lower_is_better else "A"


def _describe_winner(
    better: str | None, difference: Interval, p: float, samples: int, sentences: int
) -> str:
    p_text = f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"
    if better:
        return f"{better} is better, {p_text}"
    if difference.score == difference.low == difference.high == 0:
        return f"no difference, {p_text}"
    if sentences < FEWEST_SENTENCES:
        return f"{sentences:,} sentences are too few to tell, {p_text}"
    if p < _SIGNIFICANCE_LEVEL:
        return f"too close to call: {p_text}, but the interval of the difference has 0 in it"

    return f"no difference that {samples:,} samples can tell, {p_text}"


def resample_sums(stats: CountRows, samples: int, seed: int) -> CountRows:
    """Return the sums of `samples` test sets of equal size, drawn with replacement from this one."""
    generator, n = np.random.default_rng(seed), len(stats)
    sums = []
    for _ in range(samples):
        # How often each sentence was drawn: the sum of a sample is then one product with all rows.
        weights = np.bincount(generator.integers(n, size=n), minlength=n)
        sums.append(weights @ stats)
    return np.stack(sums)


def group_by_length(texts: Sequence[str], split: Callable[[str], list[str]] = str.split) -> Groups:
    """Group texts by their number of words, as `split` finds them.

    Each group has a tenth of the texts or more.

    >>> group_by_length(["a b c", "a", "a b c d e f", "a b c d e", "a b c d"])
    {'1': [1], '2-3': [0], '4-5': [3, 4], '6+': [2]}
    """
    lengths = {i: len(split(text)) for i, text in enumerate(texts)}
    edges: list[int] = []
    for edge in _BUCKET_ENDS:
        last_edge = edges[-1] if edges else -1
        inside = sum(last_edge < length <= edge for length in lengths.values())
        beyond = sum(length > edge for length in lengths.values())
        # Neither this group nor the rest may be too small.
        if min(inside, beyond) >= max(1, _SMALLEST_BUCKET * len(lengths)):
            edges.append(edge)

    return _group_by_value(lengths, edges, first=min(lengths.values()))


def group_by_rarest_word(
    references: Sequence[str],
    training: Iterable[str],
    split: Callable[[str], list[str]] | None = None,
) -> Groups:
    """Group references by how often their rarest word, as `split` finds them, occurs in training.

    >>> group_by_rarest_word(["The cat.", "the dog", "?"], training=["the cat and the cat"])
    {'0': [1], '1-9': [0], 'no word': [2]}
    """
    split = split or plain_words
    words = [set(split(reference)) for reference in references]
    reference_words = set().union(*words)
    # Only words of the references: a large training text has many others.
    counts: Counter[str] = Counter()
    for line in training:
        counts.update(word for word in split(line) if word in reference_words)

    rarest, wordless = {}, []
    for i, sentence in enumerate(words):
        if sentence:
            rarest[i] = min(counts[word] for word in sentence)
        else:
            wordless.append(i)

    groups = _group_by_value(rarest, _FREQUENCY_ENDS, first=0)
    if wordless:
        groups["no word"] = wordless
    return groups


def group_by_lone_words(
    references: Sequence[str], split: Callable[[str], list[str]] | None = None
) -> Groups:
    """Group references by how many of their words, as `split` finds them, occur in no other.

    >>> group_by_lone_words(["The cat.", "the dog", "a dog", "the dog"])
    {'0': [1, 3], '1': [0, 2]}
    """
    words = [(split or plain_words)(reference) for reference in references]
    counts = Counter(word for sentence in words for word in sentence)
    lone = {}
    for i, sentence in enumerate(words):
        lone[i] = sum(counts[word] == 1 for word in sentence)
    return _group_by_value(lone, _LONE_WORD_ENDS, first=0)


def _split_letters(text: str) -> list[str]:
    """Return the letters of a text without spaces, which stand for its words."""
    return [character for character in text.casefold() if character.isalpha()]


def _group_by_value(values: Mapping[int, int], ends: Sequence[int], first: int) -> Groups:
    """Group indices by their value: from `first` to the first end, from there to the second, ..."""
    names, begin = [], first
    for end in ends:
        names.append(str(begin) if begin == end else f"{begin}-{end}")
        begin = end + 1
    names.append(f"{begin}+")

    groups: Groups = {name: [] for name in names}
    for i, value in values.items():
        groups[names[bisect_left(ends, value)]].append(i)
    return {name: members for name, members in groups.items() if members}


def plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the punctuation around them.

    >>> plain_words("«Don't», said the 3-year-old (twice)...")
    ["don't", 'said', 'the', '3-year-old', 'twice']
    """
    # casefold and not lower: it makes the German sharp s equal to ss.
    return [word for word in map(_strip_symbols, text.casefold().split()) if word]


def _strip_symbols(word: str) -> str:
    """Remove the punctuation and the symbols around a word."""
    begin, end = 0, len(word)
    while begin < end and _is_symbol(word[begin]):
        begin += 1
    while end > begin and _is_symbol(word[end - 1]):
        end -= 1
    return word[begin:end]


def _is_symbol(character: str) -> bool:
    """Whether a character is in Unicode's categories P (punctuation) or S (symbols)."""
    return unicodedata.category(character)[0] in "PS"
