"""A test set with noise planted into it: what a model makes of text as careless people write it.

What is asked is whether the words are still right. So all scores, also the scores of clean lines,
ignore case, marks around a line, and its end marks.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from pellucid.data.text.noise import NOISE_KINDS, TextPair, join_pairs
from pellucid.data.text.surroundings import MARK_KINDS, trim_marks
from pellucid.evaluate.scores import corpus_scores

CLEAN, SENTENCES = "clean", "sentences"
STRESS_KINDS = (*NOISE_KINDS, SENTENCES)
_END_MARKS = ".!?…。！？।"
# Marks that are form; an address or a name that is lost is a fault.
_FORM = frozenset(MARK_KINDS) - {"labels"}
_METRICS = ("bleu", "chrf")

References = Sequence[Sequence[str | None]]


@dataclass(frozen=True)
class StressRow:
    """Scores of the lines with one kind of noise, and their differences from the scores of clean lines."""

    kind: str
    changed: int  # number of lines that the noise changes
    bleu: float
    chrf: float
    bleu_difference: float = 0.0
    chrf_difference: float = 0.0

    def row(self) -> dict[str, Any]:
        """Return the row as `--json` writes it."""
        return asdict(self)


@dataclass(frozen=True)
class NoisyTestSet:
    """Sources with one kind of noise, and their references, with what a translation should show of it."""

    sources: list[str]
    references: list[list[str]]


def plant_test_noise(
    kind: str,
    sources: Sequence[str],
    references: References,
    languages: tuple[str | None, str | None],
) -> NoisyTestSet:
    """Plant a kind of noise, one of `STRESS_KINDS`, into every line that it fits.

    The same lines get the same noise. For "sentences", every two lines become one.
    """
    noisy_sources, noisy_references = [], []
    for column in references:
        pairs = _plant_column(kind, sources, column, languages)
        # The same with each column.
        noisy_sources = [pair.source for pair in pairs]
        noisy_references.append([pair.target for pair in pairs])
    return NoisyTestSet(noisy_sources, noisy_references)


def _plant_column(
    kind: str,
    sources: Sequence[str],
    references: Sequence[str | None],
    languages: tuple[str | None, str | None],
) -> list[TextPair]:
    """Plant noise into sources and one of the lists of their references."""
    pairs = []
    for source, target in zip(sources, references, strict=True):
        pairs.append(TextPair(source, target or "", *languages))
    if kind == SENTENCES:
        twos = zip(pairs[::2], pairs[1::2], strict=False)
        joined = [join_pairs(first, second) for first, second in twos]
        return joined + pairs[2 * len(joined) :]

    noisy = []
    for number, pair in enumerate(pairs):
        # Seeded line by line, so that a line gets the same noise beside each of its references, and
        # in any test set.
        planted = NOISE_KINDS[kind](pair, Random(number)) if pair.source.strip() else pair
        # In a second list, a blank reference says that there is none, and stays blank.
        noisy.append(planted if pair.target.strip() else replace(planted, target=""))

    return noisy


def score_stress(
    sources: Sequence[str],
    references: References,
    translate: Callable[[str, Sequence[str]], Sequence[str]],
    languages: tuple[str | None, str | None] = (None, None),
    tokenize: str | None = None,
) -> tuple[list[StressRow], dict[str, str]]:
    """Return the scores of the clean lines and of each kind of noise, and the metrics' signatures.

    `translate` gets a kind of noise and the sources that it changes; first, `CLEAN` and all of
    them. Kinds that fit no line are left out. Raises ValueError for texts that do not belong
    together, as `corpus_scores` does.
    """

    def score(translations: Sequence[str], references: References) -> dict[str, Any]:
        texts = [strip_form(text) for text in translations]
        columns = []
        for column in references:
            columns.append([None if text is None else strip_form(text) for text in column])
        words = {"tokenize": tokenize, "language": languages[1]}
        return corpus_scores(texts, columns, metrics=_METRICS, lowercase=True, **words)

    clean = dict(zip(sources, translate(CLEAN, sources), strict=True))
    scores = score([clean[source] for source in sources], references)
    rows = [StressRow(CLEAN, 0, scores["bleu"]["score"], scores["chrf"]["score"])]
    signatures = {name: scores[name]["signature"] for name in _METRICS}
    for kind in STRESS_KINDS:
        noisy = plant_test_noise(kind, sources, references, languages)
        # A line that the noise does not fit has its translation.
        changed = [source for source in noisy.sources if source not in clean]
        if not changed:
            continue

        translations = clean | dict(zip(changed, translate(kind, changed), strict=True))
        result = score([translations[source] for source in noisy.sources], noisy.references)
        beside = scores
        if kind == SENTENCES:
            # Longer lines have other scores: the clean translations are scored two on a line, too.
            column = [clean[source] for source in sources]
            joined = plant_test_noise(SENTENCES, sources, [column], languages)
            beside = score(joined.references[0], noisy.references)
        numbers = [result[name]["score"] for name in _METRICS]
        differences = [result[name]["score"] - beside[name]["score"] for name in _METRICS]
        rows.append(StressRow(kind, len(changed), *numbers, *differences))

    return rows, signatures


def strip_form(text: str) -> str:
    """Return a text without marks around it and at its end.

    >>> strip_form('3) "Go home!"')
    'Go home'
    """
    start, end = trim_marks(text, 0, len(text), _FORM)
    return text[start:end].rstrip(_END_MARKS)


def stress_table(rows: Sequence[StressRow]) -> list[str]:
    """Return the rows as lines of text; differences are to the clean lines."""
    lines = [f"{'noise':15}{'lines':>7}{'BLEU':>8}{'':8}{'chrF':>8}"]
    for row in rows:
        number = "" if row.kind == CLEAN else f"{row.changed:,}"
        line = f"{row.kind.replace('_', ' '):15}{number:>7}{row.bleu:8.2f}"
        if row.kind == CLEAN:
            line += f"{'':8}{row.chrf:8.2f}"
        else:
            line += f"{row.bleu_difference:+8.2f}{row.chrf:8.2f}{row.chrf_difference:+8.2f}"
        lines.append(line)

    return lines
