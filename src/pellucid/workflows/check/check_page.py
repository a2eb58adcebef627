"""HTML page of a check: one file without scripts, which loads nothing and escapes every text it shows."""

from collections.abc import Sequence
from html import escape

import numpy as np

from pellucid.data.links import WordStems, list_words
from pellucid.evaluate.comparison_page import report_page, text_or_empty
from pellucid.workflows.check.evidence import Judge
from pellucid.workflows.check.examine import CorpusReport, Example, FaultFinding, removing_option
from pellucid.workflows.check.pair_faults import FAULTS

_WIDTH, _HEIGHT = 640, 120
_BARS = 80
_BAD = ' class="bad"'
_STYLE = """
h1 { overflow-wrap: anywhere; }
.plot { max-width: 100%; height: auto; margin: 0.5rem 0; } .plot text { fill: var(--soft); font-size: 12px; }
.plot rect { fill: var(--b); } .plot rect.bad { fill: var(--a); } .links text { fill: var(--ink); font-size: 13px; }
.links line { stroke: var(--b); } .bar { display: inline-block; height: 0.7rem; background: var(--a); min-width: 1px; }
td.words { min-width: 8rem; } .changes dd.right { color: var(--soft); }
"""


def report_as_html(report: CorpusReport, files: Sequence[str]) -> str:
    """Return the whole page."""
    share = f"{report.faulty:,} of {report.pairs:,} pairs ({report.faulty / report.pairs:.1%})"
    title = " and ".join(files)
    sections = "".join(_finding_html(report, finding) for finding in report.findings.values())
    notes = "".join(f"<p>Not looked for: {escape(note)}.</p>" for note in report.notes)
    main = f"""<h1>{escape(title)}</h1>
<p>{share} have a fault that <code>--fix</code> takes out.</p>
{notes}
{_overview_html(report)}
{_plots_html(report)}
{sections}"""
    return report_page(f"Check of {title}", main, _STYLE)


def _overview_html(report: CorpusReport) -> str:
    if not report.findings:
        return "<p>No fault was found.</p>"
    most = max(finding.pairs for finding in report.findings.values())
    rows = ""
    for name, finding in report.findings.items():
        title, option = escape(FAULTS[name].title), escape(removing_option(name))
        width = 8 * finding.pairs / most
        rows += (
            f'<tr><th scope="row"><a href="#{name}">{title}</a></th><td>{finding.pairs:,}</td>'
            f"<td>{finding.pairs / report.pairs:.2%}</td>"
            f'<td class="words"><span class="bar" style="width:{width:.2f}rem"></span></td>'
            f'<td class="words"><code>{option}</code></td></tr>'
        )

    return f"""<section><h2>Faults</h2>
<div class="wide" role="region" aria-label="Faults" tabindex="0"><table>
<thead><tr><th scope="col">fault</th><th scope="col">pairs</th><th scope="col">share</th><th></th>
<th scope="col" class="words">taken out by</th></tr></thead><tbody>{rows}</tbody></table></div></section>"""


def _plots_html(report: CorpusReport) -> str:
    """Return the pictures of the whole corpus: where faults are, ratios of lengths, and evidence."""
    removed = [name for name, fault in FAULTS.items() if fault.removed]
    faulty = np.flatnonzero(report.removed_pairs(removed))
    places = np.histogram(faulty, bins=_BARS, range=(0, report.pairs))[0]
    parts = [
        "<h2>Where the faults are</h2>",
        _bars_svg(
            places, "line 1", f"line {report.pairs:,}", "pairs with a fault that --fix takes out"
        ),
    ]
    ratios = np.log2((report.lengths[1] + 10) / (report.lengths[0] + 10))
    counts = np.histogram(np.clip(ratios, -3, 3), bins=_BARS, range=(-3, 3))[0]
    parts += [
        "<h2>Lengths of the sides</h2>",
        _bars_svg(
            counts, "target 8 times shorter", "8 times longer", "pairs by their ratio of characters"
        ),
    ]
    if report.judge is not None:
        edge = 12.0
        logits = np.clip(report.logits, -edge, edge)
        counts = np.histogram(logits, bins=_BARS, range=(-edge, edge))[0]
        bad = np.linspace(-edge, edge, _BARS + 1)[1:] <= max(report.judge.threshold, -edge)
        parts += [
            "<h2>Are they translations?</h2>",
            _bars_svg(
                counts,
                "like shuffled pairs",
                "like translations",
                "pairs by what their words say",
                bad,
            ),
            '<p class="note">The height is the square root of the number, so that a few pairs can be seen.</p>',
        ]

    return "".join(
        f"<section>{part}</section>" if part.startswith("<svg") else part for part in parts
    )


def _bars_svg(
    counts: np.ndarray, left: str, right: str, title: str, bad: np.ndarray | None = None
) -> str:
    """Draw counts as bars; their height is the square root, so that few are seen beside many."""
    heights = np.sqrt(counts) / max(1.0, float(np.sqrt(counts.max(initial=1)))) * (_HEIGHT - 24)
    width = _WIDTH / len(counts)
    bars = ""
    for n, height in enumerate(heights):
        if not height:
            continue
        mark = _BAD if bad is not None and bad[n] else ""
        bars += (
            f'<rect{mark} x="{n * width:.1f}" y="{_HEIGHT - 18 - height:.1f}" '
            f'width="{width - 1:.1f}" height="{height:.1f}"/>'
        )

    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{bars}<text x="0" y="{_HEIGHT - 3}">{escape(left)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 3}" text-anchor="end">{escape(right)}</text></svg>'
    )


def _finding_html(report: CorpusReport, finding: FaultFinding) -> str:
    fault = FAULTS[finding.fault]
    listed = "".join(f"<li>{escape(detail)}</li>" for detail in report.details_of(finding.fault))
    drawn = finding.fault in ("not_translation", "shifted", "language", "ratio", "sentences")
    items = "".join(_example_html(report, example, drawn) for example in finding.examples)
    return f"""<section id="{finding.fault}">
<h2>{escape(fault.title)}: {finding.pairs:,} pair{"s" if finding.pairs > 1 else ""}</h2>
<p>{escape(" ".join(fault.sentences))} Taken out by
<code>{escape(removing_option(finding.fault))}</code>.</p>
<ul>{listed}</ul>
<ol class="changes">{items}</ol>
</section>"""


def _example_html(report: CorpusReport, example: Example, drawn: bool) -> str:
    right = ""
    if example.right_target is not None:
        target = escape(example.right_target)
        right = f'<dt>Belongs to it</dt><dd class="right" dir="auto">{target}</dd>'

    links = ""
    if drawn and report.judge is not None and report.words is not None:
        links = _links_svg(report.judge, report.words, example.source, example.target)
        if example.right_target is not None:
            links += _links_svg(report.judge, report.words, example.source, example.right_target)

    return (
        f"<li><h3>Line {example.line:,}</h3><dl>"
        f'<dt class="source">Source</dt><dd dir="auto">{text_or_empty(example.source)}</dd>'
        f'<dt class="reference">Target</dt><dd dir="auto">{text_or_empty(example.target)}</dd>{right}</dl>{links}</li>'
    )


def _links_svg(judge: Judge, words: WordStems, source: str, target: str) -> str:
    """Draw the words of a pair in two rows, with a line from each target word to the source word it comes from."""
    rows = [list_words(source)[:16], list_words(target)[:16]]
    if not all(rows):
        return ""
    places = []
    for row in rows:
        # About 8 units a letter, and a gap.
        widths = np.array([8 * len(word) + 14 for word in row])
        places.append(np.cumsum(widths) - widths / 2)

    width = max(float(place[-1]) for place in places) + 60
    sources, targets = words.encode([source]), words.encode([target])
    first = np.zeros(1, np.int64)
    [(_, links)] = judge.model.link_chunks(sources, targets, first, first)
    used, strengths = judge.model.link_ratios(links, np.ones(1, bool))

    # p(target word | source word) / p(target word)
    ratios = np.zeros((int(sources.lengths[0]), int(targets.lengths[0])))
    ratios[links.source_position[used], links.target_position[used]] = strengths
    ratios = ratios[: len(rows[0]), : len(rows[1])]

    lines = ""
    for j, i in enumerate(ratios.argmax(axis=0)):
        if ratios[i, j] > 2:
            thickness = min(3.0, 0.7 + np.log10(ratios[i, j]))
            lines += (
                f'<line x1="{places[0][i]:.0f}" y1="22" x2="{places[1][j]:.0f}" y2="68" '
                f'stroke-width="{thickness:.1f}"/>'
            )

    texts = ""
    for row, place, y in zip(rows, places, (16, 82), strict=True):
        for word, x in zip(row, place, strict=True):
            texts += f'<text x="{x:.0f}" y="{y}" text-anchor="middle">{escape(word)}</text>'

    return (
        f'<svg class="plot links" viewBox="0 0 {width:.0f} 90" width="{width:.0f}" height="90" role="img" '
        f'aria-label="links between the words">{lines}{texts}</svg>'
    )
