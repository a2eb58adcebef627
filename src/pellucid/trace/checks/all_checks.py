"""What is checked of every trace, each time one is made: the receipts at the foot of the page."""

from typing import TYPE_CHECKING

import numpy as np

from pellucid.trace.checks.captured_run import Check, Seen
from pellucid.trace.checks.number_checks import account_checks, pattern_checks, recomputed_check, step_checks
from pellucid.trace.checks.rerun_checks import cached_check, fused_checks, run_checks, tree_checks

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace


def checks(trace: "Trace") -> list[Check]:
    """All of them, in the order of the page. What an edit replaced is not expected to follow from anything."""
    return checks_of(seen_in(trace))


def checks_of(seen: Seen) -> list[Check]:
    """The same, of what was captured of one sentence."""
    with np.errstate(all="ignore"):  # a number that is none fails its check, and need not be warned of
        return [
            *fused_checks(seen),
            *pattern_checks(seen),
            recomputed_check(seen),
            cached_check(seen),
            *account_checks(seen),
            *step_checks(seen),
            *tree_checks(seen),
            *run_checks(seen),
        ]


def seen_in(trace: "Trace") -> Seen:
    """What the checks look at, of a trace."""
    return Seen(
        config=trace.config,
        tensors={name: trace.values_of(name) for name in trace},
        source=trace.source.ids,
        read=trace.inputs.ids,
        written=trace.target.ids,
        model=trace.model,
        replaced=trace.replaced,
        steps=trace.steps,
        tree=trace.tree,
        hashes={"model": trace.sha256, "tokenizer": trace.tokenizer_sha256},
    )
