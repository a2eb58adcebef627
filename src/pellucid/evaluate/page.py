"""A comparison as one HTML page that stands alone: no script, nothing fetched, every text of others escaped."""

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from html import escape
from pathlib import Path

from pellucid.evaluate.bootstrap import Interval, PairedScore
from pellucid.evaluate.compare import ChangedSentence, Comparison, Grouping, ScoredBucket
from pellucid.evaluate.difference_svg import axis_reach, bar_svg, whisker_svg
from pellucid.evaluate.report import count_identical, describe_method, format_signed, headline

MOST_WORDS = 500
"""Words of the longest translations whose differences are looked for: the search takes their square."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load: nothing, were something to slip through the escapes."""

AXIS = '<th scope="col" class="axis"><span class="a">A better</span><span class="b">B better</span></th>'
"""The head of a column of pictures."""


def comparison_as_html(comparison: Comparison) -> str:
    """The whole page."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    groups = "".join(map(grouping_html, comparison.groupings.values()))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(comparison.a)} against {escape(comparison.b)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{headline(comparison)}</h1>
<dl class="names">
<dt class="a">A</dt><dd>{escape(comparison.a)}</dd>
<dt class="b">B</dt><dd>{escape(comparison.b)}</dd>
</dl>
<p>{count_identical(comparison)}</p>
</header>
{scores_html(comparison)}
{groups}
{changes_html("Where B gained most", comparison.gained)}
{changes_html("Where B lost most", comparison.lost)}
</main>
</body>
</html>
"""


def scores_html(comparison: Comparison) -> str:
    """The table of scores, with a picture of each difference."""
    edge = axis_reach(end for each in comparison.scores.values() for end in (each.difference.low, each.difference.high))
    rows = "".join(score_row_html(each, edge) for each in comparison.scores.values())
    signatures = "".join(f"<li>{each.title}: <code>{each.signature}</code></li>" for each in comparison.scores.values())
    return f"""<section>
<h2>Scores</h2>
<div class="wide" role="region" aria-label="Scores" tabindex="0"><table class="scores">
<thead><tr><th scope="col">Score</th><th scope="col">A</th><th scope="col">B</th><th scope="col">B − A</th>
{AXIS}
<th scope="col" class="words">What the samples say</th></tr></thead>
<tbody>{rows}</tbody>
</table></div>
<p class="note">{describe_method(comparison)}</p>
<details><summary>How each score is computed</summary><ul>{signatures}</ul></details>
</section>"""


def score_row_html(each: PairedScore, edge: float) -> str:
    """One row of the table of scores."""
    title = each.title + ("<small>lower is better</small>" if each.lower_is_better else "")
    numbers = interval_cell(each.a, "") + interval_cell(each.b, "") + interval_cell(each.difference, "+")
    better = f' class="words {each.better.lower()}"' if each.better else ' class="words"'
    verdict = each.verdict.replace("p = ", "p&nbsp;=&nbsp;")
    return f'<tr><th scope="row">{title}</th>{numbers}<td>{whisker_svg(each, edge)}</td><td{better}>{verdict}</td></tr>'


def interval_cell(each: Interval, sign: str) -> str:
    """A score with its interval below it, in one cell."""
    low, high = format_signed(each.low, sign), format_signed(each.high, sign)
    return print_minus(f"<td>{format_signed(each.score, sign)}<small>{low} to {high}</small></td>")


def grouping_html(grouping: Grouping) -> str:
    """The table of one way to group the sentences."""
    edge = axis_reach(each.chrf[1] - each.chrf[0] for each in grouping.buckets)
    rows = "".join(bucket_row_html(each, edge) for each in grouping.buckets)
    heading, sides = f"By {grouping.title}", "".join(f'<th scope="col">{side}</th>' for side in ("A", "B", "B − A"))
    return f"""<section>
<h2>{heading}</h2>
<div class="wide" role="region" aria-label="{heading}" tabindex="0"><table>
<thead><tr><td></td><td></td><th scope="colgroup" colspan="3">BLEU</th><th scope="colgroup" colspan="4">chrF</th></tr>
<tr><td></td><th scope="col">sentences</th>{sides * 2}{AXIS}</tr></thead>
<tbody>{rows}</tbody>
</table></div>
</section>"""


def bucket_row_html(each: ScoredBucket, edge: float) -> str:
    """One row of such a table."""
    numbers = "".join(
        print_minus(f"<td>{a:.2f}</td><td>{b:.2f}</td><td>{format_signed(b - a)}</td>")
        for a, b in (each.bleu, each.chrf)
    )
    drawn = bar_svg(each.chrf[1] - each.chrf[0], edge)
    return f'<tr><th scope="row">{each.name}</th><td>{each.sentences:,}</td>{numbers}<td>{drawn}</td></tr>'


def changes_html(title: str, found: list[ChangedSentence]) -> str:
    """Sentences that changed, with what they should be and what both made of them."""
    if not found:
        return ""
    items = "".join(change_html(each) for each in found)
    return f"""<section>
<h2>{title}</h2>
<p class="note">By chrF of the sentence. Marked: <del>words of A that B has not</del>, <ins>words of B that A has
not</ins>.</p>
<ol class="changes">{items}</ol>
</section>"""


def change_html(each: ChangedSentence) -> str:
    """One sentence."""
    rows = [("source", "Source", text_or_empty(each.source))] if each.source is not None else []
    a, b = mark_differences(each.a, each.b)
    rows += [("reference", "Reference", text_or_empty(each.reference)), ("a", "A", a), ("b", "B", b)]
    inside = "".join(f'<dt class="{kind}">{name}</dt><dd dir="auto">{shown}</dd>' for kind, name, shown in rows)
    numbers = print_minus(f"{each.chrf_a:.1f} → {each.chrf_b:.1f} ({each.difference:+.1f})")
    return f"<li><h3>Line {each.line:,} <span>chrF {numbers}</span></h3><dl>{inside}</dl></li>"


def mark_differences(a: str, b: str) -> tuple[str, str]:
    """Both as HTML, with what the other has not in <del> and <ins>.

    >>> mark_differences("a small dog", "a big dog <")
    ('a <del>small</del> dog', 'a <ins>big</ins> dog <ins>&lt;</ins>')
    """
    left, right = a.split(), b.split()
    if max(len(left), len(right)) > MOST_WORDS:
        return text_or_empty(a), text_or_empty(b)
    steps = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    ours = join_word_runs("del", ((left[i:j], step != "equal") for step, i, j, _, _ in steps))
    theirs = join_word_runs("ins", ((right[i:j], step != "equal") for step, _, _, i, j in steps))
    return ours or text_or_empty(""), theirs or text_or_empty("")


def join_word_runs(tag: str, runs: Iterable[tuple[list[str], bool]]) -> str:
    """Runs of words as HTML; those that differ stand in the tag."""

    def parts() -> Iterator[str]:
        for words, differs in runs:
            if words:
                inside = escape(" ".join(words))
                yield f"<{tag}>{inside}</{tag}>" if differs else inside

    return " ".join(parts())


def text_or_empty(words: str) -> str:
    """A text as HTML, and a word for one that has none."""
    return escape(words) if words.strip() else "<em>empty</em>"


def print_minus(numbers: str) -> str:
    """The same with minus signs as they are printed."""
    return numbers.replace("-", "−")
