"""All checks of a trace, in the order in which the page lists them at its foot."""

from typing import TYPE_CHECKING

import numpy as np

from pellucid.trace.checks.captured_run import CapturedRun, Check
from pellucid.trace.checks.number_checks import check_accounts, check_patterns, check_recomputed, check_steps
from pellucid.trace.checks.rerun_checks import check_cached_decoding, check_fused_run, check_model_state, check_tree

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace


def check_trace(trace: "Trace") -> list[Check]:
    """Check everything about a trace, in the order of the page, but not what an edit replaced."""
    return check_captured_run(make_captured_run(trace))


def check_captured_run(run: CapturedRun) -> list[Check]:
    """Check everything that was captured of one sentence."""
    with np.errstate(all="ignore"):  # NaN fails its check anyway; a warning beside it would only be noise
        return [
            *check_fused_run(run),
            *check_patterns(run),
            check_recomputed(run),
            check_cached_decoding(run),
            *check_accounts(run),
            *check_steps(run),
            *check_tree(run),
            *check_model_state(run),
        ]


def make_captured_run(trace: "Trace") -> CapturedRun:
    """Return the parts of a trace that the checks look at."""
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
