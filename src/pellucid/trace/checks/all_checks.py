"""What is checked of every trace, each time one is made: the receipts at the foot of the page."""

from typing import TYPE_CHECKING

import numpy as np

from pellucid.trace.checks.captured_run import CapturedRun, Check
from pellucid.trace.checks.number_checks import check_accounts, check_patterns, check_recomputed, check_steps
from pellucid.trace.checks.rerun_checks import check_cached_decoding, check_fused_run, check_model_state, check_tree

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace


def check_trace(trace: "Trace") -> list[Check]:
    """All of them, in the order of the page. What an edit replaced is not expected to follow from anything."""
    return check_captured_run(captured_run(trace))


def check_captured_run(seen: CapturedRun) -> list[Check]:
    """The same, of what was captured of one sentence."""
    with np.errstate(all="ignore"):  # a number that is none fails its check, and need not be warned of
        return [
            *check_fused_run(seen),
            *check_patterns(seen),
            check_recomputed(seen),
            check_cached_decoding(seen),
            *check_accounts(seen),
            *check_steps(seen),
            *check_tree(seen),
            *check_model_state(seen),
        ]


def captured_run(trace: "Trace") -> CapturedRun:
    """What the checks look at, of a trace."""
    return CapturedRun(
        config=trace.config,
        tensors={name: trace.values_of(name) for name in trace},
        source=trace.source.ids,
        inputs=trace.inputs.ids,
        target=trace.target.ids,
        model=trace.model,
        replaced=trace.replaced,
        steps=trace.steps,
        tree=trace.tree,
        hashes={"model": trace.sha256, "tokenizer": trace.tokenizer_sha256},
    )
