"""The report of a study of heads: tables, JSON objects, badges for the page, and numbers for the figure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pellucid.cli.terminal import format_table

if TYPE_CHECKING:
    from pellucid.inspect.heads import HeadImportance, HeadPatterns, HeadStudy
    from pellucid.inspect.importance import Head, ScoreCurve
    from pellucid.inspect.roles import Badge, FollowedRelation, QueryShare

CURVE_TITLES = {"loss": "loss, nats a piece", "bleu": "BLEU"}

LEGEND = (
    "confidence: mean of the largest weights. entropy: of all weights, in nats. sink: share of the weight on EOS, the "
    "end token of the source; in decoder.*.self, on BOS, the start token. The other columns leave these tokens out, as "
    "queries and as keys.",
    "piece, word: the offset at which the largest weights are found most often, and how often. rarest, two: how often "
    "the largest weight is on the rarest piece, and on one of the two rarest, in sentences that have a rare piece; in "
    "brackets, how often by chance.",
    "silent: change of the loss, in nats a piece, when this head is silenced, and its standard error. gradient: "
    "E |dL/dxi|; unit: the same, scaled to length 1 in each attention.",
)


@dataclass(frozen=True)
class HeadReport:
    """Everything a study of heads found; `gold` says whether alignments were given or are the model's own."""

    patterns: "HeadStudy"
    importance: "HeadImportance"
    badges: "dict[Head, list[Badge]]"
    curves: "Sequence[ScoreCurve]"
    curve: str
    among: str
    gold: bool
    pairs: int
    notes: Sequence[str]

    @property
    def heads(self) -> "list[Head]":
        """Return all heads, in the order of the study."""
        return [pattern.head for pattern in self.patterns.heads]

    def figure(self) -> dict[str, Any]:
        """Return the arguments of `plots.charts.draw_head_study`."""
        attentions = list(dict.fromkeys(head.attention for head in self.heads))
        rows = {name: [n for n, head in enumerate(self.heads) if head.attention == name] for name in attentions}
        marks = [",".join(badge.mark for badge in self.badges[head]) for head in self.heads]
        cost = [change.value for change in self.importance.ablation]
        return {
            "attentions": attentions,
            "importance": [[cost[n] for n in numbers] for numbers in rows.values()],
            "marks": [[marks[n] for n in numbers] for numbers in rows.values()],
            "similarity": self.patterns.similarity,
            "curves": {curve.order: (curve.kept, curve.values) for curve in self.curves},
            "curve_name": CURVE_TITLES[self.curve],
        }


def head_report_lines(report: HeadReport) -> Iterator[str]:
    """Yield the tables of the report."""
    importance = report.importance
    yield f"{len(report.heads)} heads on {report.pairs:,} pairs, loss {importance.loss:.4f} nats a piece"
    yield from (f"note: {note}" for note in report.notes)
    yield ""
    columns = ["confidence", "entropy", "sink", "piece", "word", "rarest", "two", "silent"]
    rows = [["head", *columns, "", "gradient", "unit", "roles"]]
    for n, pattern in enumerate(report.patterns.heads):
        change = importance.ablation[n]
        rows.append(
            [
                str(pattern.head),
                *(_format_number(value, 2) for value in (pattern.confidence, pattern.entropy, pattern.sink)),
                _preferred_offset(pattern.pieces),
                _preferred_offset(pattern.words),
                *_rare_word_cells(pattern),
                f"{change.value:+.4f}",
                f"±{change.error:.4f}",
                f"{importance.gradient[n]:.4f}",
                f"{importance.normalised[n]:.2f}",
                " ".join(badge.mark for badge in report.badges[pattern.head]) or "-",
            ]
        )
    yield from format_table(rows, "lrrrrrrrrrrrl")
    yield ""
    yield from LEGEND
    if not any(
        pattern.rarest.queries for pattern in report.patterns.heads if pattern.head.attention.startswith("encoder.")
    ):
        yield "No source piece here is outside the 500 commonest of the text that was counted; try --counts FILE."
    yield ""
    yield from _relation_lines(report)
    yield (
        "Spearman's correlation with what silence costs: gradient "
        f"{_format_number(importance.correlation['gradient'], 2)}, with "
        f"length 1 in each attention {_format_number(importance.correlation['normalised'], 2)}."
    )
    yield _describe_costliest(report)
    yield ""
    yield from _curve_lines(report)
    yield ""
    awarded = [(head, badge) for head in report.heads for badge in report.badges[head]]
    yield from (f"{head}  {badge.mark}  {badge.says}" for head, badge in awarded)
    if not awarded:
        from pellucid.inspect.roles import RULES

        yield "No head can be called anything by these rules:"
        yield from (f"  {mark}: {rule}" for mark, rule in RULES.items())


def _describe_costliest(report: HeadReport) -> str:
    """Return a sentence on the attention whose heads cost most, each silent alone.

    Michel et al. 2019 found it to be the last cross-attention.
    """
    costs: dict[str, float] = {}  # by attention, the sum over its heads
    for head, change in zip(report.heads, report.importance.ablation, strict=True):
        costs[head.attention] = costs.get(head.attention, 0.0) + change.value
    costliest = max(costs, key=lambda name: costs[name])
    sentence = f"Silent heads cost most in {costliest}, {costs[costliest]:+.4f} nats a piece added up over its heads"
    last = [name for name in costs if name.endswith(".cross")][-1]
    if last == costliest:
        return f"{sentence}."
    return f"{sentence}; in the last cross-attention, {last}, {costs[last]:+.4f}."


def _relation_lines(report: HeadReport) -> Iterator[str]:
    """Yield for each row that may align the best head and, to compare with, the best fixed offset."""
    best: dict[str, tuple[float, int, FollowedRelation]] = {}
    for candidate in report.patterns.aligned:
        # The negative number makes the first of equally good heads the largest.
        share, number = max((share, -n) for n, share in enumerate(candidate.shares))
        if candidate.relation not in best or share > best[candidate.relation][0]:
            best[candidate.relation] = (share, -number, candidate)
    if not best:
        return
    alignments = "gold alignments" if report.gold else "alignments that this model makes itself"
    rows = [[f"aligned ({alignments})", "best head", "hits", "fixed offset", "hits", "instances"]]
    for relation, (share, head, candidate) in best.items():
        cells = [f"{candidate.offset:+d}", f"{candidate.baseline:.1%}", f"{candidate.instances:,}"]
        rows.append([relation, f"{candidate.attention}.{head}", f"{share:.1%}", *cells])
    yield from format_table(rows, "llrrrr")
    yield ""


def _curve_lines(report: HeadReport) -> Iterator[str]:
    """Yield the table of loss or score against heads kept, order by order."""
    # Heads that the curve may take away; all others stay.
    kinds = {"all": "heads", "encoder": "encoder heads", "decoder": "self-attention heads of the decoder"}
    counts = report.curves[0].kept
    title = f"{CURVE_TITLES[report.curve]}, {kinds.get(report.among, 'cross-attention heads')} kept"
    rows = [[title, *(str(count) for count in counts)]]
    digits = 3 if report.curve == "loss" else 2
    rows += [[curve.order, *(f"{value:.{digits}f}" for value in curve.values)] for curve in report.curves]
    yield from format_table(rows, "l" + "r" * len(counts))


def head_objects(report: HeadReport) -> Iterator[dict[str, Any]]:
    """Yield an object for the study, one for each head, relation and curve, and one for the similarity of heads."""
    from pellucid.inspect.heads import SIMILARITY
    from pellucid.inspect.roles import RULES

    importance = report.importance
    yield {
        "kind": "study",
        "pairs": report.pairs,
        "loss": importance.loss,
        "spearman": importance.correlation,
        "marks": "EOS, the end token of the source, and BOS, the start token of the target, are left out, as queries "
        "and as keys",
        "rules": RULES,
        "notes": list(report.notes),
    }
    for n, pattern in enumerate(report.patterns.heads):
        yield {
            "kind": "head",
            **{key: value for key, value in asdict(pattern).items() if key != "head"},
            "attention": pattern.head.attention,
            "head": pattern.head.number,
            "silent": asdict(importance.ablation[n]),
            "gradient": importance.gradient[n],
            "normalised": importance.normalised[n],
            "roles": [asdict(badge) for badge in report.badges[pattern.head]],
        }
    yield from ({"kind": "aligned", **asdict(relation)} for relation in report.patterns.aligned)
    for curve in report.curves:
        yield {"kind": "curve", "of": report.curve, "among": report.among, **asdict(curve)}
    heads = [str(head) for head in report.heads]
    yield {"kind": "similarity", "measure": SIMILARITY, "heads": heads, "rows": report.patterns.similarity}


def _preferred_offset(offsets: "dict[int, QueryShare]") -> str:
    """Return the offset with the largest share of queries, and that share."""
    shares = [(share.value, -abs(d), d) for d, share in offsets.items() if share.value is not None]
    if not shares:
        return "-"
    value, _, d = max(shares)  # of equal shares, that of the nearer word
    return f"{d:+d} {value:4.0%}" if d else f"0 {value:4.0%}"


def _rare_word_cells(pattern: "HeadPatterns") -> list[str]:
    """Return the shares for the rarest and the two rarest pieces, with chance in brackets."""
    pairs = (pattern.rarest.value, pattern.rarest_chance), (pattern.two_rarest.value, pattern.two_rarest_chance)
    return ["-" if value is None or chance is None else f"{value:.0%} ({chance:.0%})" for value, chance in pairs]


def _format_number(value: float | None, digits: int) -> str:
    """Return a number with so many digits, or a dash for None and NaN."""
    # Only NaN differs from itself: Spearman's correlation of equal values, for one.
    return "-" if value is None or value != value else f"{value:.{digits}f}"
