"""HTML page of a comparison: one file without scripts, which loads nothing and escapes all text."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from html import escape
from pathlib import Path

from pellucid.evaluate.comparison import (
    ChangedSentence,
    Comparison,
    Grouping,
    Interval,
    PairedScore,
    ScoredBucket,
)
from pellucid.evaluate.report import count_identical, describe_method, format_signed, headline

# Words of the longest translations whose differences are marked: the search takes their square.
MOST_WORDS = 500
# The browser loads nothing, even if something slipped through.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Head of a column of pictures.
_AXIS = '<th scope="col" class="axis"><span class="a">A better</span><span class="b">B better</span></th>'


def report_page(title: str, main: str, style: str = "") -> str:
    """Return a page without scripts; `title` is text, `main` and `style` are HTML and CSS that is escaped already."""
    # Inside of the page: a file that is mailed or moved keeps its looks.
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8") + style
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{main}
</main>
</body>
</html>
"""


def comparison_as_html(comparison: Comparison) -> str:
    """Return the whole page."""
    groups = "".join(map(_grouping_html, comparison.groupings.values()))
    notes = "".join(f"<p>Note: {escape(note)}.</p>\n" for note in comparison.notes)
    main = f"""<header>
<h1>{headline(comparison)}</h1>
<dl class="names">
<dt class="a">A</dt><dd>{escape(comparison.a)}</dd>
<dt class="b">B</dt><dd>{escape(comparison.b)}</dd>
</dl>
<p>{count_identical(comparison)}</p>
{notes}</header>
{_scores_html(comparison)}
{groups}
{_changes_html("Where B gained most", comparison.gained, comparison.unit)}
{_changes_html("Where B lost most", comparison.lost, comparison.unit)}"""
    return report_page(f"{comparison.a} against {comparison.b}", main)


def _scores_html(comparison: Comparison) -> str:
    """Return the table of scores, with a picture of each difference."""
    # One scale for all rows, so that their pictures can be compared.
    ends = []
    for score in comparison.scores.values():
        if score.is_defined:
            ends += [score.difference.low, score.difference.high]
    edge = _axis_reach(ends)
    rows = "".join(_score_row_html(score, edge) for score in comparison.scores.values())
    signatures = ""
    for score in comparison.scores.values():
        signatures += f"<li>{score.title}: <code>{score.signature}</code></li>"
    return f"""<section>
<h2>Scores</h2>
<div class="wide" role="region" aria-label="Scores" tabindex="0"><table class="scores">
<thead><tr><th scope="col">Score</th><th scope="col">A</th><th scope="col">B</th><th scope="col">B − A</th>
{_AXIS}
<th scope="col" class="words">What the samples say</th></tr></thead>
<tbody>{rows}</tbody>
</table></div>
<p class="note">{describe_method(comparison)}</p>
<details><summary>How each score is computed</summary><ul>{signatures}</ul></details>
</section>"""


def _score_row_html(score: PairedScore, edge: float) -> str:
    title = score.title + ("<small>lower is better</small>" if score.lower_is_better else "")
    numbers = _interval_cell(score.a, "") + _interval_cell(score.b, "")
    numbers += _interval_cell(score.difference, "+")
    picture = _whisker_svg(score, edge)
    if not score.is_defined:
        numbers, picture = "<td>-</td>" * 3, ""
    better = f' class="words {score.better.lower()}"' if score.better else ' class="words"'
    # So that no line breaks inside of p = 0.02.
    verdict = score.verdict.replace("p = ", "p&nbsp;=&nbsp;")
    return f'<tr><th scope="row">{title}</th>{numbers}<td>{picture}</td><td{better}>{verdict}</td></tr>'


def _interval_cell(interval: Interval, sign: str) -> str:
    low, high = format_signed(interval.low, sign), format_signed(interval.high, sign)
    return _print_minus(
        f"<td>{format_signed(interval.score, sign)}<small>{low} to {high}</small></td>"
    )


def _grouping_html(grouping: Grouping) -> str:
    edge = _axis_reach(bucket.chrf[1] - bucket.chrf[0] for bucket in grouping.buckets)
    rows = "".join(_bucket_row_html(bucket, edge) for bucket in grouping.buckets)
    heading, sides = (
        f"By {grouping.title}",
        "".join(f'<th scope="col">{side}</th>' for side in ("A", "B", "B − A")),
    )
    return f"""<section>
<h2>{heading}</h2>
<div class="wide" role="region" aria-label="{heading}" tabindex="0"><table>
<thead><tr><td></td><td></td><th scope="colgroup" colspan="3">BLEU</th><th scope="colgroup" colspan="4">chrF</th></tr>
<tr><td></td><th scope="col">sentences</th>{sides * 2}{_AXIS}</tr></thead>
<tbody>{rows}</tbody>
</table></div>
</section>"""


def _bucket_row_html(bucket: ScoredBucket, edge: float) -> str:
    numbers = "".join(map(_pair_cells, (bucket.bleu, bucket.chrf)))
    picture = _bar_svg(bucket.chrf[1] - bucket.chrf[0], edge)
    return f'<tr><th scope="row">{bucket.name}</th><td>{bucket.sentences:,}</td>{numbers}<td>{picture}</td></tr>'


def _pair_cells(scores: tuple[float, float] | None) -> str:
    """Return the cells of two scores and their difference; a dash in each where there is no score."""
    if scores is None:
        return "<td>-</td>" * 3
    a, b = scores
    return _print_minus(f"<td>{a:.2f}</td><td>{b:.2f}</td><td>{format_signed(b - a)}</td>")


def _changes_html(title: str, changes: list[ChangedSentence], unit: str) -> str:
    """Return a list of changed sentences, with reference and both translations, if there are any."""
    if not changes:
        return ""
    items = "".join(_change_html(change, unit) for change in changes)
    return f"""<section>
<h2>{title}</h2>
<p class="note">By chrF of the sentence. Marked: <del>{unit} of A that B has not</del>, <ins>{unit} of B that A has
not</ins>.</p>
<ol class="changes">{items}</ol>
</section>"""


def _change_html(change: ChangedSentence, unit: str) -> str:
    a, b = mark_differences(change.a, change.b, unit)
    rows = {"Reference": text_or_empty(change.reference), "A": a, "B": b}
    if change.source is not None:
        rows = {"Source": text_or_empty(change.source), **rows}
    definitions = ""
    for name, content in rows.items():
        # dir=auto: Arabic or Hebrew text is read from the right.
        definitions += f'<dt class="{name.lower()}">{name}</dt><dd dir="auto">{content}</dd>'

    numbers = _print_minus(f"{change.chrf_a:.1f} → {change.chrf_b:.1f} ({change.difference:+.1f})")
    return (
        f"<li><h3>Line {change.line:,} <span>chrF {numbers}</span></h3><dl>{definitions}</dl></li>"
    )


def mark_differences(a: str, b: str, unit: str = "words") -> tuple[str, str]:
    """Return both texts as HTML, with words that the other does not have in <del> and <ins>.

    The `unit` may also be "characters", for text without spaces between words.

    >>> mark_differences("a small dog", "a big dog <")
    ('a <del>small</del> dog', 'a <ins>big</ins> dog <ins>&lt;</ins>')
    >>> mark_differences("黑猫喝水", "黑猫喝牛奶", "characters")
    ('黑猫喝<del>水</del>', '黑猫喝<ins>牛奶</ins>')
    """
    space = "" if unit == "characters" else " "
    words_a, words_b = (list(text) if unit == "characters" else text.split() for text in (a, b))
    if max(len(words_a), len(words_b)) > MOST_WORDS:
        return text_or_empty(a), text_or_empty(b)

    # autojunk would ignore words that are frequent in long texts.
    operations = SequenceMatcher(None, words_a, words_b, autojunk=False).get_opcodes()
    runs_a = ((words_a[i:j], operation != "equal") for operation, i, j, _, _ in operations)
    runs_b = ((words_b[i:j], operation != "equal") for operation, _, _, i, j in operations)
    html_a, html_b = _join_word_runs("del", runs_a, space), _join_word_runs("ins", runs_b, space)
    return html_a or text_or_empty(""), html_b or text_or_empty("")


def _join_word_runs(tag: str, runs: Iterable[tuple[list[str], bool]], space: str) -> str:
    """Return runs of words as HTML, with the runs that differ inside of the tag."""
    parts = []
    for words, differs in runs:
        content = escape(space.join(words))
        if words:
            parts.append(f"<{tag}>{content}</{tag}>" if differs else content)
    return space.join(parts)


def text_or_empty(words: str) -> str:
    """Return a text as HTML, or a placeholder if it has no words."""
    return escape(words) if words.strip() else "<em>empty</em>"


def _print_minus(numbers: str) -> str:
    return numbers.replace("-", "−")


WIDTH, HEIGHT = 220, 26


def _axis_reach(values: Iterable[float]) -> float:
    """Return the value at the edge of a picture: a little more than the largest of the values."""
    # 1.0 where all values are 0, for positions are divided by it.
    return 1.06 * max(map(abs, values), default=0.0) or 1.0


def _whisker_svg(score: PairedScore, edge: float) -> str:
    """Draw a difference as a dot, with its 95 % confidence interval as a line through it."""
    direction = -1 if score.lower_is_better else 1  # a lower TER is better, so it goes to the right
    low, high = sorted(direction * end for end in (score.difference.low, score.difference.high))
    x_low, x_high = f"{_axis_position(low, edge):.1f}", f"{_axis_position(high, edge):.1f}"
    x_dot = f"{_axis_position(direction * score.difference.score, edge):.1f}"
    middle = HEIGHT / 2

    drawing = f'<line x1="{x_low}" x2="{x_high}" y1="{middle}" y2="{middle}"/>'
    for x in (x_low, x_high):
        drawing += f'<line x1="{x}" x2="{x}" y1="{middle - 4}" y2="{middle + 4}"/>'
    drawing += f'<circle cx="{x_dot}" cy="{middle}" r="5"/>'
    return _frame_svg(score.better, drawing)


def _bar_svg(difference: float, edge: float) -> str:
    """Draw a difference as a bar from the middle."""
    start, end = sorted((_axis_position(0, edge), _axis_position(difference, edge)))
    place = f'x="{start:.1f}" y="7" width="{end - start:.1f}" height="{HEIGHT - 14}"'
    return _frame_svg("B" if difference > 0 else "A", f'<rect {place} rx="2"/>')


def _axis_position(value: float, edge: float) -> float:
    return WIDTH / 2 * (1 + value / edge)


def _frame_svg(better: str | None, content: str) -> str:
    """Return an SVG of this content with its middle line."""
    # Hidden from screen readers: its numbers are in the cells beside it.
    return (
        f'<svg class="{"even" if better is None else better.lower()}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" aria-hidden="true"><line class="zero" x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="0" '
        f'y2="{HEIGHT}"/>{content}</svg>'
    )
