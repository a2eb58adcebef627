"""The verdict on a translation: every cause that may have spoiled it, with the numbers that speak for it."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pellucid.trace.causes.findings import (
    Finding,
    TranslationCase,
    compare_with_reference,
    find_hallucination,
    find_odd_pieces,
    find_omissions,
    find_repetitions,
    make_fine_finding,
)

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

Matrix = list[list[float]]


@dataclass(frozen=True)
class TranslationVerdict:
    """Findings about a translation, those one can do most about first; one finding of kind "fine" if there are none.

    `erasure_source` has for each source word, `erasure_prefix` for each written piece, how the log-probability of each
    written piece changes when it is hidden (`trace/causes/erasure.py`); None for pieces up to the hidden one.
    """

    findings: list[Finding]
    reference: str | None
    erasure_source: Matrix
    erasure_prefix: list[list[float | None]]

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as the page reads it."""
        return {**asdict(self), "findings": [finding.as_json() for finding in self.findings]}


def judge_translation(trace: "Trace", reference: str | None = None) -> TranslationVerdict:
    """Judge the translation of a trace; with a better reference, say whether search or model is to blame.

    Raises ValueError for a trace that cannot be judged: one from disk, which has no model, or one of an edited run.
    """
    if any(edit.kind != "prefix" for edit in trace.edits):
        raise ValueError("this run was changed, so its translation is not the model's; ask the trace without edits")
    case = TranslationCase.from_trace(trace)
    effects = case.measure_effects()
    findings = [
        *(compare_with_reference(case, reference) if reference is not None else []),
        *find_odd_pieces(case),
        # If the translation has little to do with the source at all, single missing words are not worth a finding.
        *(find_hallucination(effects) or find_omissions(case, effects)),
        *find_repetitions(case, effects),
    ]
    return TranslationVerdict(
        findings or [make_fine_finding(case, effects)],
        reference,
        effects.source.tolist(),
        [
            [change if later > hidden else None for later, change in enumerate(row)]
            for hidden, row in enumerate(effects.prefix.tolist())
        ],
    )
