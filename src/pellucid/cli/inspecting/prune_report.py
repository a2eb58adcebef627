"""The report of a pruning study, as tables and as JSON objects."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pellucid.cli.inspecting.output import align_columns

if TYPE_CHECKING:
    from pellucid.cli.inspecting.pruning_measurer import PruningCurve, PruningPoint, Speed
    from pellucid.evaluate.compare import PairedScore
    from pellucid.inspect.importance import Head
    from pellucid.model import Transformer

SCORE_TITLES = {"bleu": ("BLEU", 2), "chrf": ("chrF", 2), "loss": ("loss, nats a piece", 4)}
HEAD_KINDS = {
    "all": "heads",
    "encoder": "encoder heads",
    "decoder": "self-attention heads of the decoder",
    "cross": "cross-attention heads",
}


@dataclass(frozen=True)
class PruningStudy:
    """The curves, and which pairs ranked the heads and which measured."""

    model: str
    among: str
    heads: int
    beam: int
    ranked_on: str
    measured_on: str
    curves: "Sequence[PruningCurve]"
    learned: "PruningPoint | None"
    notes: Sequence[str]

    @property
    def kind(self) -> str:
        return HEAD_KINDS[self.among]


@dataclass(frozen=True)
class PruningResult:
    """A smaller model beside the one it was made from."""

    model: "Transformer"
    by: str
    removed: "Sequence[Head]"
    point: "PruningPoint"
    parameters: "tuple[int, ...]"
    difference: float
    largest_logit: float
    scores: "Sequence[PairedScore]"
    speeds: "Sequence[Speed]"


def study_lines(study: PruningStudy) -> Iterator[str]:
    """Heads kept beside what is left, score by score."""
    yield f"{study.heads} {study.kind} ranked on {study.ranked_on}; measured on {study.measured_on}, beam {study.beam}"
    yield from (f"note: {note}" for note in study.notes)
    for score, (title, digits) in SCORE_TITLES.items():
        yield ""
        yield from score_table(study, score, title, digits)


def score_table(study: PruningStudy, score: str, title: str, digits: int) -> Iterator[str]:
    """A row for each order; of the random ones the mean, the least and the largest."""
    rows = [[f"{title}, {study.kind} kept", *(str(point.kept) for point in study.curves[0].points)]]
    chance = []
    for curve in study.curves:
        values = [getattr(point, score) for point in curve.points]
        if curve.order.startswith("random"):
            chance.append(values)
        else:
            rows.append([curve.order, *(f"{value:.{digits}f}" for value in values)])
    columns = list(zip(*chance, strict=True))
    for name, of in (("mean", fmean), ("least", min), ("largest", max)):
        rows.append([f"{len(chance)} random orders, {name}", *(f"{of(each):.{digits}f}" for each in columns)])
    yield from align_columns(rows, "l" + "r" * (len(rows[0]) - 1))
    if study.learned is not None:
        yield f"l0, {study.learned.kept} kept: {getattr(study.learned, score):.{digits}f}"


def result_lines(result: PruningResult) -> Iterator[str]:
    """The two models side by side."""
    before, after = result.parameters
    yield f"removed by {result.by}, {len(result.removed)}: {' '.join(map(str, result.removed)) or 'none'}"
    rows = [["", "before", "after", "difference"]]
    rows.append(["parameters", f"{before:,}", f"{after:,}", f"{after / before - 1:+.1%}"])
    for each in result.scores:
        says = f"{each.difference.score:+.2f} [{each.difference.low:+.2f}, {each.difference.high:+.2f}]"
        rows.append([each.title, f"{each.a.score:.2f}", f"{each.b.score:.2f}", f"{says}, p {each.p_value:.3f}"])
    for each in result.speeds:
        spread = f"{each.ratio:.3f} times [{min(each.ratios):.3f}, {max(each.ratios):.3f}]"
        rows.append([f"{each.what}, sentences/s", f"{each.before:.1f}", f"{each.after:.1f}", spread])
    yield from align_columns(rows, "lrrl")
    yield (
        f"Removing equals silencing: the largest difference between two logits is {result.difference:.1e}, where the "
        f"largest logit is {result.largest_logit:.1f}."
    )
    yield "Brackets: 95 % of paired bootstrap samples for scores; the slowest and the fastest round for speeds."


def study_objects(study: PruningStudy) -> Iterator[dict[str, Any]]:
    """One for the study, one for each curve."""
    known = ("model", "among", "heads", "beam", "ranked_on", "measured_on", "notes")
    yield {"kind": "pruning", **{name: getattr(study, name) for name in known}}
    yield from ({"kind": "curve", **asdict(each)} for each in study.curves)
    if study.learned is not None:
        yield {"kind": "learned", **asdict(study.learned)}


def result_object(result: PruningResult, out: str | None) -> dict[str, Any]:
    """Return a result as one JSON object."""
    return {
        "kind": "pruned",
        "by": result.by,
        **asdict(result.point),
        "removed": list(map(str, result.removed)),
        "parameters": {"before": result.parameters[0], "after": result.parameters[1]},
        "largest_difference": result.difference,
        "largest_logit": result.largest_logit,
        "scores": [asdict(each) for each in result.scores],
        "speeds": [{**asdict(each), "ratio": each.ratio} for each in result.speeds],
        "out": out,
    }
