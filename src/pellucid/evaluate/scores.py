"""How good translations are: BLEU, chrF and TER by sacreBLEU, each with its signature, word errors, loops."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

MetricScore = dict[str, Any]
"""{"score": in per cent, "signature": how it was computed}."""


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    metrics: Iterable[str] = ("bleu", "chrf", "ter", "wer"),
    lowercase: bool = False,
) -> dict[str, MetricScore]:
    """Scores of all translations together; upper and lower case are told apart, or not.

    `references` are one for each translation; or several for each, as sacreBLEU takes them: a list of the first of
    every translation, a list of the second, and so on. A model with `tokenizer.lowercase` cannot know which case it
    would have to write: its scores want `lowercase`.

    >>> corpus_scores(["the cat sat on mats"], ["the cat sat on the mats"], metrics=["wer"])["wer"]["score"]
    16.666666666666664

    Raises ValueError for unequal numbers, for none, and for references without a word.
    """
    streams = reference_streams(references)
    refuse_unequal(len(hypotheses), "translations", streams)
    if not any(reference.strip() for stream in streams for reference in stream):
        raise ValueError("nothing to score: no reference has a word")
    return {name: METRICS[name](hypotheses, streams, lowercase) for name in metrics}


def reference_streams(references: Any) -> list[Any]:
    """The lists of references, each of one for every translation: the lists given, or the only one."""
    if isinstance(references, Iterable) and not isinstance(references, str | bytes):
        references = list(references)
        if references and isinstance(references[0], Iterable) and not isinstance(references[0], str | bytes):
            return references
    return [references]


def refuse_unequal(number: int, name: str, streams: Sequence[Sequence[str]]) -> None:
    """ValueError for a list of references that are not as many as what they belong to."""
    for at, stream in enumerate(streams, start=1):
        if len(stream) != number:
            which = f" in list {at} of {len(streams)}" if len(streams) > 1 else ""
            raise ValueError(f"{number:,} {name} and {len(stream):,} references{which}: each needs the other")


def bleu_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> MetricScore:
    """Papineni et al. 2002, as Post 2018 fixed it: tokenizer 13a, exponential smoothing, up to 4-grams."""
    return score_with_sacrebleu(bleu_metric(lowercase), hypotheses, references)


def chrf_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> MetricScore:
    """Popović 2015: F2 of character n-grams up to 6, spaces left out."""
    from sacrebleu.metrics.chrf import CHRF

    return score_with_sacrebleu(CHRF(lowercase=lowercase), hypotheses, references)


def ter_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> MetricScore:
    """Snover et al. 2006: edits and shifts of phrases, in per cent of the reference's words; lower is better."""
    return score_with_sacrebleu(ter_metric(lowercase), hypotheses, references)


def wer_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> MetricScore:
    """Words to replace, insert and delete, in per cent of the references' words; lower is better.

    With several references the edits are those to the nearest, and the words the mean of all, as in TER.
    """
    case = str.lower if lowercase else str
    edits, words = 0, 0.0
    for hypothesis, *wanted in zip(hypotheses, *references, strict=True):
        left, rights = case(hypothesis).split(), [case(each).split() for each in wanted]
        edits += min(edit_distance(left, right) for right in rights)
        words += sum(map(len, rights)) / len(rights)
    return {
        "score": 100 * (edits / words),
        "signature": f"nrefs:{len(references)}|case:{'lc' if lowercase else 'mixed'}|tok:whitespace|edits:levenshtein",
    }


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Fewest replacements, insertions and deletions that make `left` into `right` (Wagner and Fischer 1974).

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(right) + 1))  # distances from what was read of `left` to each beginning of `right`
    for read, word in enumerate(left, start=1):
        diagonal, row[0] = row[0], read
        for at, other in enumerate(right, start=1):
            diagonal, row[at] = row[at], min(diagonal + (word != other), row[at] + 1, row[at - 1] + 1)
    return row[-1]


def repetition_rate(texts: Sequence[str]) -> float:
    """The share of texts that run in a loop: 1 to 4 words that stand three times or more in a row.

    >>> repetition_rate(["a dog runs", "a dog a dog a dog runs", "very, very big"])
    0.3333333333333333
    """
    return sum(map(runs_in_a_loop, texts)) / max(len(texts), 1)


def runs_in_a_loop(text: str, longest: int = 4, times: int = 3) -> bool:
    """Whether some words, `longest` at most, stand `times` times or more in a row."""
    words = text.split()
    for n in range(1, longest + 1):
        run = 0  # words in a row that equal the one n places on
        for word, later in zip(words, words[n:], strict=False):
            run = run + 1 if word == later else 0
            if run == n * (times - 1):
                return True
    return False


def bleu_metric(lowercase: bool = False) -> Any:
    """BLEU with the settings of this house."""
    from sacrebleu.metrics.bleu import BLEU

    # Already tokenised text is scored as it is: sacreBLEU would only warn of it.
    return BLEU(tokenize="13a", force=True, lowercase=lowercase)


def ter_metric(lowercase: bool = False) -> Any:
    """TER with the settings of this house."""
    from sacrebleu.metrics.ter import TER

    return TER(case_sensitive=not lowercase)


def score_with_sacrebleu(metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MetricScore:
    """The score of one of sacreBLEU's metrics, with the signature that says how to get it again."""
    score = metric.corpus_score(hypotheses, references).score
    return {"score": score, "signature": str(metric.get_signature())}


METRICS: dict[str, Callable[..., MetricScore]] = {
    "bleu": bleu_score,
    "chrf": chrf_score,
    "ter": ter_score,
    "wer": wer_score,
}
"""A new metric is a function and a line here."""
