"""Comparison of two translations of a test set: which is better, how certainly, where, and in which sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pellucid.evaluate.bootstrap import PairedScore, compare_metric
from pellucid.evaluate.buckets import Groups, group_by_length, group_by_lone_words, group_by_rarest_word
from pellucid.evaluate.statistics import COMPARED_METRICS, CountRows, sentence_counts


@dataclass(frozen=True)
class ScoredBucket:
    """A group of sentences and its scores, those of A and those of B."""

    name: str
    sentences: int
    bleu: tuple[float, float]
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
    identical: int
    """Sentences whose translations are the same in both, character by character."""
    samples: int
    seed: int
    scores: dict[str, PairedScore]
    """Scores by metric: "bleu", "chrf", "ter", "wer"."""
    groupings: dict[str, Grouping]
    """Groupings by name: "length", "rare_words"."""
    gained: list[ChangedSentence]
    """Sentences where B is most above A, by chrF of the sentence."""
    lost: list[ChangedSentence]
    """Sentences where B is most below A."""

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as dictionaries, lists, texts and numbers."""
        return asdict(self)


def compare_translations(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    training: Iterable[str] | None = None,
    names: tuple[str, str] = ("A", "B"),
    samples: int = 1000,
    seed: int = 1,
    show: int = 10,
    lowercase: bool = False,
) -> Comparison:
    """Compare the translations `a` and `b` of the same sentences; `lowercase` ignores their case.

    `training` is the target side of the training text, which shows what words are rare; without it, words are counted
    in the references. `samples` test sets are drawn, and at most `show` sentences kept in each direction. Raises
    ValueError for unequal numbers of lines, for references without a word, and for numbers out of range.
    """
    refuse_incomparable(a, b, references, sources, samples, seed, show)
    # Counted once: scores, groups and changed sentences are all made from sums of these rows.
    counts = {
        name: (sentence_counts(name, a, references, lowercase), sentence_counts(name, b, references, lowercase))
        for name in COMPARED_METRICS
    }
    gained, lost = changed_sentences(
        a, b, references, sources, *(COMPARED_METRICS["chrf"].score(rows) for rows in counts["chrf"])
    )
    groups = {
        "length": length_groups(references, sources),
        "rare_words": rare_word_groups(references, training, lowercase),
    }
    return Comparison(
        *names,
        sentences=len(references),
        identical=sum(text_a == text_b for text_a, text_b in zip(a, b, strict=True)),
        samples=samples,
        seed=seed,
        scores={name: compare_metric(name, *counts[name], samples, seed, lowercase) for name in COMPARED_METRICS},
        groupings={name: Grouping(title, score_groups(members, counts)) for name, (title, members) in groups.items()},
        gained=gained[:show],
        lost=lost[:show],
    )


def length_groups(references: Sequence[str], sources: Sequence[str] | None) -> tuple[str, Groups]:
    """Group by the length of the sources if they are given, otherwise by that of the references; with a title."""
    side, texts = ("reference", references) if sources is None else ("source", sources)
    return f"length of the {side}, in words", group_by_length(texts)


def rare_word_groups(
    references: Sequence[str], training: Iterable[str] | None, lowercase: bool = False
) -> tuple[str, Groups]:
    """Group by rare words, counted in the training text if it is given, otherwise in the references; with a title."""
    if lowercase:
        references = [line.lower() for line in references]
        # A generator: the training text may be large, and is read line by line.
        training = None if training is None else (line.lower() for line in training)
    if training is None:
        return "words of the reference that occur only once in all references", group_by_lone_words(references)
    title = "how often the rarest word of the reference occurs in the training text"
    return title, group_by_rarest_word(references, training)


def refuse_incomparable(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None,
    samples: int,
    seed: int,
    show: int,
) -> None:
    """Raise ValueError, naming every problem at once, for texts and numbers that cannot be compared."""
    sides = {"references": references, "translations in A": a, "translations in B": b}
    if sources is not None:
        sides["sources"] = sources
    numbers = {name: len(lines) for name, lines in sides.items()}
    problems = []
    if len(set(numbers.values())) > 1:
        problems.append(f"{', '.join(f'{n:,} {name}' for name, n in numbers.items())}: each needs its own")
    # Scores relative to the words or characters of the references would be undefined.
    if not any(reference.strip() for reference in references):
        problems.append("no reference has a word")
    problems += [
        f"{name} is {value}, it must be {least} or more"
        for name, value, least in (("samples", samples, 1), ("seed", seed, 0), ("show", show, 0))
        if value < least
    ]
    if problems:
        raise ValueError(f"nothing to compare: {'; '.join(problems)}")


def changed_sentences(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None,
    chrf_a: CountRows,
    chrf_b: CountRows,
) -> tuple[list[ChangedSentence], list[ChangedSentence]]:
    """Return the sentences that are better in B and those that are worse, largest change first."""
    changes = [
        ChangedSentence(
            i + 1, sources[i] if sources else None, references[i], a[i], b[i], float(chrf_a[i]), float(chrf_b[i])
        )
        # Translations may differ and have the same chrF: those are in neither list.
        for i in np.flatnonzero(chrf_a != chrf_b).tolist()
    ]
    gained = sorted((change for change in changes if change.difference > 0), key=lambda change: -change.difference)
    lost = sorted((change for change in changes if change.difference < 0), key=lambda change: change.difference)
    return gained, lost


def score_groups(groups: Groups, counts: dict[str, tuple[CountRows, CountRows]]) -> list[ScoredBucket]:
    """Return BLEU and chrF of the sentences of each group."""

    def score_pair(metric: str, members: list[int]) -> tuple[float, float]:
        a, b = (
            # Counts are summed before they are scored: BLEU of a group is no mean of its sentences.
            float(COMPARED_METRICS[metric].score(rows[members].sum(axis=0, keepdims=True))[0])
            for rows in counts[metric]
        )
        return a, b

    return [
        ScoredBucket(name, len(members), bleu=score_pair("bleu", members), chrf=score_pair("chrf", members))
        for name, members in groups.items()
    ]
