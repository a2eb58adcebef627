"""Checks that look at the captured numbers alone: patterns, every operation again, accounts of logits, steps."""

from collections.abc import Iterator

import numpy as np

from pellucid.trace.causes.logit_accounts import LogitAccount, LogitQuestion, account_for_logits
from pellucid.trace.checks.captured_run import CapturedRun, Check, check_at_most, check_not_made, list_first_names
from pellucid.trace.checks.graph import operations
from pellucid.trace.checks.recompute import recompute
from pellucid.trace.facts import Candidate


def check_patterns(seen: CapturedRun) -> Iterator[Check]:
    """Each row of a pattern is a distribution over what it may read."""
    names = [name for name in seen.tensors if name.endswith(".pattern") and name not in seen.replaced]
    names = [name for name in names if name.replace(".pattern", ".allowed") in seen.tensors]
    one, zero = "rows of every pattern sum to 1", "what may not be read has weight 0"
    if not names:
        why = "no pattern that follows from the run was captured"
        yield from (check_not_made(one, why), check_not_made(zero, why))
        return
    off, weight = 0.0, 0.0
    for name in names:
        pattern, allowed = seen.tensors[name].astype(np.float64), captured_mask(seen, name)
        sums = pattern.sum(axis=-1)
        off = largest_difference(off, sums - np.broadcast_to(allowed.any(axis=-1), sums.shape))
        weight = largest_difference(weight, np.where(allowed, 0.0, pattern), np.minimum(pattern, 0.0))
    left = f"; {list_first_names(seen.replaced)} left out, edited" if seen.replaced else ""
    rows = sum(seen.tensors[name].shape[0] * seen.tensors[name].shape[1] for name in names)
    yield check_at_most(min(seen.rounding, 1e-6), one, off, f"Largest distance from 1 over {rows:,} rows{left}.")
    yield check_at_most(
        0.0, zero, weight, f"Largest weight on padding or on the future, in {len(names)} patterns; none is negative."
    )


def captured_mask(seen: CapturedRun, pattern: str) -> np.ndarray:
    """What may be read, as captured; in the decoder's own attention never the future, whatever was captured."""
    allowed = seen.tensors[pattern.replace(".pattern", ".allowed")] != 0
    causal = pattern.startswith("decoder") and ".self." in pattern
    return np.broadcast_to(
        allowed & np.tri(allowed.shape[-1], dtype=bool) if causal else allowed, seen.tensors[pattern].shape
    )


def check_recomputed(seen: CapturedRun) -> Check:
    """Every captured tensor once more from the captured ones it is made of."""
    name = "every number follows from its inputs"
    if reason := seen.why_not_checked(formulas=True):
        return check_not_made(name, reason)
    ids = {"source": seen.source, "target": seen.inputs}
    errors: dict[str, float] = {}
    for tensor, operation in operations(seen.config).items():
        if tensor in seen.replaced or any(each not in seen.tensors for each in (tensor, *operation.inputs)):
            continue
        captured = seen.tensors[tensor].astype(np.float64)
        inputs = [seen.tensors[each] for each in operation.inputs]
        again = recompute(operation, inputs, seen.parameter, ids, captured.shape)
        errors[tensor] = largest_difference(0.0, captured - again) / (largest_difference(0.0, again) or 1.0)
    if not errors:
        return check_not_made(name, "no tensor was captured together with what it is made of")
    worst = max(errors, key=lambda each: (np.isnan(errors[each]), errors[each]))
    left = f"; {list_first_names(seen.replaced)} left out, edited" if seen.replaced else ""
    return check_at_most(
        seen.rounding,
        name,
        errors[worst],
        f"{len(errors)} tensors recomputed in NumPy; largest difference, in {worst}, as a share of its largest "
        f"number{left}.",
    )


def check_accounts(seen: CapturedRun) -> Iterator[Check]:
    """The parts of the logit of every written piece add up to it, and would not if one were missing."""
    limit = 1e-10 if seen.rounding < 1e-9 else 1e-4
    sums, control = "the parts of every written piece's logit add up", "an account that lacks its largest part is off"
    needed = [name for name in operations(seen.config) if name == "logits" or name.startswith("decoder.")]
    if reason := seen.why_not_checked(*needed, formulas=True):
        yield from (check_not_made(sums, reason), check_not_made(control, reason))
        return
    questions = [LogitQuestion(step, number) for step, number in enumerate(seen.target)]
    found = account_for_logits(seen.config, seen.tensors.__getitem__, seen.parameter, seen.pieces, questions)
    parts = len(found[0].parts)
    yield check_at_most(
        limit,
        sums,
        largest_difference(0.0, *(np.array(each.error) for each in found)),
        f"{parts} parts at each of {len(found)} steps, norms as they were; the largest miss as a share.",
    )
    misses = [error_without_largest(each) for each in found]
    yield check_at_most(
        0,
        control,
        float(sum(not miss > limit for miss in misses)),
        f"Accounts that would still pass the check above with their largest part left out; the nearest misses by "
        f"{min(misses):.2g}.",
    )


def error_without_largest(account: LogitAccount) -> float:
    """By how much the parts miss the logit when the largest is left out, relative to it."""
    values = [part.value for part in account.parts]
    out = max(values, key=abs)
    return abs(account.sum - out - account.logit) / max(abs(out), abs(account.logit), np.finfo(float).tiny)


def check_steps(seen: CapturedRun) -> Iterator[Check]:
    """What each step says of its candidates is what the logits say."""
    whole, same = "shown probabilities and the rest make 1", "steps show what the logits say"
    if not seen.steps:
        yield from (check_not_made(whole, "no steps were kept"), check_not_made(same, "no steps were kept"))
        return
    off = largest_difference(
        0.0, *(np.array(sum(each.prob for each in step.top) + step.others - 1.0) for step in seen.steps)
    )
    yield check_at_most(1e-6, whole, off, f"Largest distance from 1 over {len(seen.steps)} steps.")
    if reason := seen.why_not_checked("logits"):
        yield check_not_made(same, reason)
        return
    off = 0.0
    for step in seen.steps:
        logits = seen.tensors["logits"][step.step].astype(np.float64)
        raised = np.exp(logits - logits.max())
        probabilities = raised / raised.sum()
        for rank, candidate in [(step.rank, step.chosen), *enumerate(step.top, start=1)]:
            off = largest_difference(off, *candidate_differences(candidate, rank, logits, probabilities))
        entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, np.finfo(float).tiny)))
        off = largest_difference(off, step.entropy - entropy, np.array(step.others_count + len(step.top) - len(logits)))
    yield check_at_most(
        1e-5,
        same,
        off,
        "Logits, probabilities, ranks and entropies again from the captured logits; the largest difference.",
    )


def candidate_differences(
    candidate: Candidate, rank: int, logits: np.ndarray, probabilities: np.ndarray
) -> list[np.ndarray]:
    """Between what is said of a candidate and what its logits say; of equal logits the lower id is first."""
    number = candidate.id
    before = np.sum(logits > logits[number]) + np.sum(logits[:number] == logits[number])
    said = np.array([candidate.logit, candidate.prob, np.exp(candidate.log_prob), rank - 1])
    return [said - np.array([logits[number], probabilities[number], probabilities[number], before])]


def largest_difference(least: float, *found: np.ndarray) -> float:
    """The largest absolute value of all numbers, at least `least`; not a number if one is none."""
    return float(np.max([least, *(np.max(np.abs(each), initial=0.0) for each in found)]))
