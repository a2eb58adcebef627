"""Why a translation may be bad: what speaks for each cause, with its numbers."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pellucid.trace.causes.findings import Case, Finding, against, detached, fine, odd_pieces, omitted, repeated

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

Matrix = list[list[float]]


@dataclass(frozen=True)
class Verdict:
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


def verdict(trace: "Trace", reference: str | None = None) -> Verdict:
    """What speaks against the translation of a trace, and which is to blame, search or model, if a reference is better.

    ValueError for a trace that cannot be judged: one from disk, which has no model, or one of a run that was changed.
    """
    if any(edit.kind != "prefix" for edit in trace.edits):
        raise ValueError("this run was changed, so its translation is not the model's; ask the trace without edits")
    case = Case.of(trace)
    effects = case.effects()
    findings = [
        *(against(case, reference) if reference is not None else []),
        *odd_pieces(case),
        *(detached(effects) or omitted(case, effects)),
        *repeated(case, effects),
    ]
    return Verdict(
        findings or [fine(case, effects)],
        reference,
        effects.source.tolist(),
        [
            [change if later > hidden else None for later, change in enumerate(row)]
            for hidden, row in enumerate(effects.prefix.tolist())
        ],
    )
