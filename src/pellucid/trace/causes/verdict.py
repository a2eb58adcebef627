"""Why a translation may be bad: what speaks for each cause, with its numbers."""

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
    nothing_found,
)

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

Matrix = list[list[float]]


@dataclass(frozen=True)
class TranslationVerdict:
    """What was found, the causes one can do most about first; a single finding of kind "fine" where there is none.

    `erasure_source` has for each source word, `erasure_prefix` for each written piece, how the log-probability of each
    written piece changes when it is hidden (`trace/causes/erasure.py`); None for pieces up to the hidden one.
    """

    findings: list[Finding]
    reference: str | None
    erasure_source: Matrix
    erasure_prefix: list[list[float | None]]

    def as_json(self) -> dict[str, Any]:
        """As the page reads it."""
        return {**asdict(self), "findings": [finding.as_json() for finding in self.findings]}


def judge_translation(trace: "Trace", reference: str | None = None) -> TranslationVerdict:
    """What speaks against the translation of a trace, and which is to blame, search or model, if a reference is better.

    ValueError for a trace that cannot be judged: one from disk, which has no model, or one of a run that was changed.
    """
    if any(edit.kind != "prefix" for edit in trace.edits):
        raise ValueError("this run was changed, so its translation is not the model's; ask the trace without edits")
    case = TranslationCase.of(trace)
    effects = case.effects()
    findings = [
        *(compare_with_reference(case, reference) if reference is not None else []),
        *find_odd_pieces(case),
        *(find_hallucination(effects) or find_omissions(case, effects)),
        *find_repetitions(case, effects),
    ]
    return TranslationVerdict(
        findings or [nothing_found(case, effects)],
        reference,
        effects.source.tolist(),
        [
            [change if later > hidden else None for later, change in enumerate(row)]
            for hidden, row in enumerate(effects.prefix.tolist())
        ],
    )
