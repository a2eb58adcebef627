"""What a study of heads found, as tables, as JSON objects, as badges for the page, and as numbers to be drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pellucid.cli.inspecting.output import align_columns, as_plain_json

if TYPE_CHECKING:
    from pellucid.bundle import Bundle
    from pellucid.evaluate.bootstrap import PairedScore
    from pellucid.inspect.heads import HeadImportance, HeadPatterns, HeadStudy
    from pellucid.inspect.importance import Head, ScoreCurve
    from pellucid.inspect.relations import FollowedRelation
    from pellucid.inspect.roles import Badge, QueryShare

CURVE_TITLES = {"loss": "loss, nats a piece", "chrf": "chrF", "bleu": "BLEU"}

LEGEND = (
    "confidence: mean largest weight. entropy: of all weights, in nats. sink: share that goes to the end mark of the "
    "source; in decoder.*.self, to the start mark. Marks are left out of the rest, as queries and as keys.",
    "piece, word: the offset that largest weights prefer, and their share. rarest, two: largest weights on the rarest "
    "piece, and on one of the two rarest, in sentences with a rare one; by chance in brackets.",
    "silent: change of the loss in nats a piece with this head silent, and its standard error. gradient: E |dL/dxi|; "
    "unit: the same, with length 1 in each attention.",
)


@dataclass(frozen=True)
class HeadReport:
    """Everything a study of heads found. `gold` says whether alignments were given, or are the model's own."""

    patterns: "HeadStudy"
    importance: "HeadImportance"
    relations: "Sequence[FollowedRelation]"
    badges: "dict[Head, list[Badge]]"
    chrf: "Sequence[PairedScore] | None"
    curves: "Sequence[ScoreCurve]"
    curve: str
    among: str
    gold: bool
    pairs: int
    notes: Sequence[str]

    @property
    def heads(self) -> "list[Head]":
        """All heads, in order."""
        return [each.head for each in self.patterns.seen]

    def figure(self) -> dict[str, Any]:
        """The numbers that `plots.heads.head_study` draws."""
        attentions = list(dict.fromkeys(head.attention for head in self.heads))
        of = {name: [n for n, head in enumerate(self.heads) if head.attention == name] for name in attentions}
        marks = [",".join(each.mark for each in self.badges[head]) for head in self.heads]
        cost = [each.value for each in self.importance.ablation]
        return {
            "attentions": attentions,
            "importance": [[cost[n] for n in some] for some in of.values()],
            "marks": [[marks[n] for n in some] for some in of.values()],
            "similarity": self.patterns.similarity,
            "curves": {each.order: (each.kept, each.values) for each in self.curves},
            "curve_name": CURVE_TITLES[self.curve],
        }


def head_report_lines(report: HeadReport) -> Iterator[str]:
    """The tables."""
    weighed, chrf = report.importance, report.chrf
    yield f"{len(report.heads)} heads on {report.pairs:,} pairs, loss {weighed.loss:.4f} nats a piece"
    yield from (f"note: {note}" for note in report.notes)
    yield ""
    head = ["head", "confidence", "entropy", "sink", "piece", "word", "rarest", "two", "silent", "", "gradient", "unit"]
    rows = [[*head, *([] if chrf is None else ["chrF", "p"]), "roles"]]
    for n, each in enumerate(report.patterns.seen):
        change = weighed.ablation[n]
        rows.append(
            [
                str(each.head),
                *(format_number(value, 2) for value in (each.confidence, each.entropy, each.sink)),
                preferred_offset(each.pieces),
                preferred_offset(each.words),
                *rare_word_cells(each),
                f"{change.value:+.4f}",
                f"±{change.error:.4f}",
                f"{weighed.gradient[n]:.4f}",
                f"{weighed.normalised[n]:.2f}",
                *([] if chrf is None else [f"{chrf[n].difference.score:+.2f}", f"{chrf[n].p_value:.3f}"]),
                " ".join(badge.mark for badge in report.badges[each.head]) or "-",
            ]
        )
    yield from align_columns(rows, "lrrrrrrrrrrr" + ("" if chrf is None else "rr") + "l")
    yield ""
    yield from LEGEND
    if not any(each.rarest.queries for each in report.patterns.seen if each.head.attention.startswith("encoder.")):
        yield "No source piece here is outside the 500 commonest of the text that was counted; try --counts FILE."
    yield ""
    yield from relation_lines(report)
    yield (
        "Spearman's correlation with what silence costs: gradient "
        f"{format_number(weighed.correlation['gradient'], 2)}, with "
        f"length 1 in each attention {format_number(weighed.correlation['normalised'], 2)}."
    )
    yield describe_costliest(report)
    if chrf is not None:
        worse = sum(each.better == "A" for each in chrf)
        better = sum(each.better == "B" for each in chrf)
        yield f"chrF without a head: surely worse for {worse} of {len(chrf)}, surely better for {better}."
    yield ""
    yield from curve_lines(report)
    yield ""
    named = [(head, badge) for head in report.heads for badge in report.badges[head]]
    yield from (f"{head}  {badge.mark}  {badge.says}" for head, badge in named)
    if not named:
        from pellucid.inspect.roles import RULES

        yield "No head can be called anything by these rules:"
        yield from (f"  {mark}: {rule}" for mark, rule in RULES.items())


def describe_costliest(report: HeadReport) -> str:
    """The attention whose heads cost most, each silent alone; Michel et al. 2019 found the last cross-attention."""
    costs: dict[str, float] = {}
    for head, change in zip(report.heads, report.importance.ablation, strict=True):
        costs[head.attention] = costs.get(head.attention, 0.0) + change.value
    most = max(costs, key=lambda name: costs[name])
    told = f"Silent heads cost most in {most}, {costs[most]:+.4f} nats a piece added up over its heads"
    last = [name for name in costs if name.endswith(".cross")][-1:]
    if last in ([], [most]):
        return f"{told}."
    return f"{told}; in the last cross-attention, {last[0]}, {costs[last[0]]:+.4f}."


def relation_lines(report: HeadReport) -> Iterator[str]:
    """For each relation the best head, and the best fixed offset."""
    links = "gold alignments" if report.gold else "alignments that this model makes itself"
    for title, some in (("relation", report.relations), (f"aligned ({links})", report.patterns.aligned)):
        best: dict[str, tuple[float, str, FollowedRelation]] = {}
        for each in some:
            if not each.shares:  # no head is left there
                continue
            share, number = max((share, -n) for n, share in enumerate(each.shares))
            if each.relation not in best or share > best[each.relation][0]:
                best[each.relation] = (share, f"{each.attention}.{-number}", each)
        if best:
            rows = [[title, "best head", "hits", "fixed offset", "hits", "instances"]]
            for relation, (share, head, each) in best.items():
                beside = [f"{each.offset:+d}", f"{each.baseline:.1%}", f"{each.instances:,}"]
                rows.append([relation, head, f"{share:.1%}", *beside])
            yield from align_columns(rows, "llrrrr")
            yield ""


def curve_lines(report: HeadReport) -> Iterator[str]:
    """Heads kept beside what is left, order by order."""
    kinds = {"all": "heads", "encoder": "encoder heads", "decoder": "self-attention heads of the decoder"}
    counts = report.curves[0].kept
    title = f"{CURVE_TITLES[report.curve]}, {kinds.get(report.among, 'cross-attention heads')} kept"
    rows = [[title, *(str(count) for count in counts)]]
    digits = 3 if report.curve == "loss" else 2
    rows += [[each.order, *(f"{value:.{digits}f}" for value in each.values)] for each in report.curves]
    yield from align_columns(rows, "l" + "r" * len(counts))


def head_objects(report: HeadReport) -> Iterator[dict[str, Any]]:
    """One for the whole, one for each head, each relation and each curve, one for the similarity of heads."""
    from pellucid.inspect.heads import SIMILARITY
    from pellucid.inspect.roles import RULES

    weighed = report.importance
    yield {
        "kind": "study",
        "pairs": report.pairs,
        "loss": weighed.loss,
        "spearman": weighed.correlation,
        "marks": "the end mark of the source and the start mark of the target are left out, as queries and as keys",
        "rules": RULES,
        "notes": list(report.notes),
    }
    for n, each in enumerate(report.patterns.seen):
        yield {
            "kind": "head",
            **{key: value for key, value in asdict(each).items() if key != "head"},
            "attention": each.head.attention,
            "head": each.head.number,
            "silent": asdict(weighed.ablation[n]),
            "gradient": weighed.gradient[n],
            "normalised": weighed.normalised[n],
            **({} if report.chrf is None else {"chrf": asdict(report.chrf[n])}),
            "roles": [asdict(badge) for badge in report.badges[each.head]],
        }
    for kind, some in (("relation", report.relations), ("aligned", report.patterns.aligned)):
        yield from ({"kind": kind, **asdict(each)} for each in some)
    for each in report.curves:
        yield {"kind": "curve", "of": report.curve, "among": report.among, **asdict(each)}
    heads = [str(head) for head in report.heads]
    yield {"kind": "similarity", "measure": SIMILARITY, "heads": heads, "rows": report.patterns.similarity}


def badges_for_page(report: HeadReport, bundle: "Bundle") -> dict[str, Any]:
    """Roles and importance of every head, as the page may show them beside a model with this hash."""
    from pellucid.inspect.roles import RULES
    from pellucid.trace.provenance import model_facts

    of = model_facts(bundle)
    return as_plain_json(
        {
            "format": 1,
            "model": of.name,
            "sha256": of.sha256,
            "pairs": report.pairs,
            "loss": report.importance.loss,
            "rules": RULES,
            "heads": [
                {
                    "attention": head.attention,
                    "head": head.number,
                    "badges": [asdict(badge) for badge in report.badges[head]],
                    "silent": change.value,
                    "error": change.error,
                    "gradient": gradient,
                }
                for head, change, gradient in zip(
                    report.heads, report.importance.ablation, report.importance.gradient, strict=True
                )
            ],
        }
    )


def preferred_offset(offsets: "dict[int, QueryShare]") -> str:
    """The offset with the largest share, and that."""
    known = [(share.value, -abs(d), d) for d, share in offsets.items() if share.value is not None]
    if not known:
        return "-"
    value, _, d = max(known)
    return f"{d:+d} {value:4.0%}" if d else f"0 {value:4.0%}"


def rare_word_cells(seen: "HeadPatterns") -> list[str]:
    """Both shares, with chance in brackets."""
    pairs = (seen.rarest.value, seen.rarest_chance), (seen.two_rarest.value, seen.two_rarest_chance)
    return ["-" if value is None or chance is None else f"{value:.0%} ({chance:.0%})" for value, chance in pairs]


def format_number(value: float | None, digits: int) -> str:
    """A number, or that there is none."""
    return "-" if value is None or value != value else f"{value:.{digits}f}"
