"""Comparison as lines of plain text, and the line that counts alarms."""

from collections.abc import Iterator, Mapping

from pellucid.evaluate.comparison import Comparison, Interval


def comparison_as_text(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison: scores, groups of sentences, and the sentences that changed most."""
    yield f"A: {comparison.a}"
    yield f"B: {comparison.b}"
    yield f"{count_identical(comparison)} {headline(comparison)}"
    yield ""
    yield from _score_lines(comparison)
    for grouping in comparison.groupings.values():
        yield ""
        yield f"By {grouping.title}:"
        # Aligned with the rows below: 9 characters for the name, 11 for the sentences, 8 for each
        # number.
        yield f"{'':>9}  sentences    BLEU A  BLEU B   B - A    chrF A  chrF B   B - A"
        for bucket in grouping.buckets:
            cells = "".join(map(_format_pair, (bucket.bleu, bucket.chrf)))
            yield f"{bucket.name:>9}{bucket.sentences:11,}{cells}"

    for title, changes in (("gained", comparison.gained), ("lost", comparison.lost)):
        if changes:
            yield ""
            yield f"Where B {title} most (chrF of the sentence):"
        for change in changes:
            yield f"  line {change.line:,}: chrF {change.chrf_a:.1f} in A, {change.chrf_b:.1f} in B"
            texts = {
                "source": change.source,
                "reference": change.reference,
                "A": change.a,
                "B": change.b,
            }
            for name, text in texts.items():
                if text is not None:
                    yield f"    {name:<11}{text}"


def headline(comparison: Comparison) -> str:
    """Return which metrics name a winner: B is better by chrF and TER; BLEU cannot tell."""
    # Every score would say that it cannot tell; this says why.
    if comparison.identical == comparison.sentences:
        return "A and B are the same."

    titles: dict[str | None, list[str]] = {"A": [], "B": [], None: []}
    for score in comparison.scores.values():
        titles[score.better].append(score.title)

    clauses = []
    for name in ("A", "B"):
        if titles[name]:
            clauses.append(f"{name} is better by {_join_titles(titles[name])}")
    if not clauses:
        return "No score can tell A and B apart."

    if titles[None]:
        clauses.append(f"{_join_titles(titles[None])} cannot tell")
    return f"{'; '.join(clauses)}."


def _format_pair(scores: tuple[float, float] | None) -> str:
    """Return the scores of A and B and their difference in columns; a dash in each where there is no score."""
    if scores is None:
        return f"  {'-':>8}{'-':>8}{'-':>8}"
    a, b = scores
    return f"  {a:8.2f}{b:8.2f}{format_signed(b - a):>8}"


def _join_titles(titles: list[str]) -> str:
    """Join titles as in: BLEU, chrF and TER."""
    return " and ".join(filter(None, [", ".join(titles[:-1]), titles[-1]]))


def count_identical(comparison: Comparison) -> str:
    """Return a sentence on how many sentences there are, and how many translations are the same in both."""
    return (
        f"{comparison.sentences:,} sentences, {comparison.identical:,} translated the same by both."
    )


def describe_method(comparison: Comparison) -> str:
    """Return a sentence on how the numbers were computed."""
    return (
        f"With each score its 95 % confidence interval, from {comparison.samples:,} resampled "
        f"test sets (paired bootstrap, seed {comparison.seed}); p as in sacreBLEU's paired "
        "bootstrap. A winner is named where p is below 0.05 and the interval of the difference "
        "leaves out 0."
    )


def _score_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each metric, then how it was computed."""
    rows = [("", "A", "B", "B - A", "")]
    for score in comparison.scores.values():
        a, b, difference = (
            _format_interval(score.a),
            _format_interval(score.b),
            _format_interval(score.difference, "+"),
        )
        if not score.is_defined:
            a = b = difference = "-"
        rows.append(
            (
                score.title,
                a,
                b,
                difference,
                score.verdict + " (lower is better)" * score.lower_is_better,
            )
        )

    # Names of metrics and lengths of intervals vary, so columns are as wide as their widest cell.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield describe_method(comparison)
    for score in comparison.scores.values():
        yield f"{score.title}: {score.signature}"


def _format_interval(interval: Interval, sign: str = "") -> str:
    """Return, for example, 35.20 [33.91, 36.60], or with signs +0.51 [-0.12, +1.10]."""
    low, high = format_signed(interval.low, sign), format_signed(interval.high, sign)
    return f"{format_signed(interval.score, sign)} [{low}, {high}]"


def format_signed(value: float, sign: str = "+") -> str:
    """Return a number with two decimals and its sign; what rounds to 0 has no minus.

    >>> format_signed(-0.001), format_signed(0.5), format_signed(0.5, sign="")
    ('+0.00', '+0.50', '0.50')
    """
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 2) + 0.0:{sign}.2f}"


def describe_alarm_counts(counts: Mapping[str, int], translations: int, total: int) -> str:
    """Return a line that counts alarms by their names, and the translations that have one or more.

    >>> describe_alarm_counts({"empty": 0, "copy": 3, "numbers": 10}, 12, 1000)
    'Alarms: 12 of 1,000 translations (copy 3, numbers 10)'
    """
    parts = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    return f"Alarms: {translations:,} of {total:,} translations" + (f" ({parts})" if parts else "")
