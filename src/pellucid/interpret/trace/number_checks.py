"""Checks of the captured numbers alone: patterns, every operation recomputed, accounts of logits, decoding steps."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch

from pellucid.interpret.trace.attribution import LogitAccount, LogitQuestion, account_for_logits
from pellucid.interpret.trace.facts import DecodingStep, SearchTree
from pellucid.interpret.trace.operations import operations, recompute
from pellucid.interpret.trace.trace import TraceData
from pellucid.model import ModelConfig, Transformer
from pellucid.model.known_parts import unknown_parts


@dataclass(frozen=True)
class Check:
    """One thing that was checked: the number measured, its limit, and what it means in a sentence.

    A check that could not be made has neither `value` nor `limit`, counts as passed, and says why.
    """

    name: str
    passed: bool
    value: float | None
    limit: float | None
    means: str

    def as_json(self) -> dict[str, Any]:
        """Return the check as `Check` of web/src/types.ts.

        Infinities and NaN, which JSON lacks, become None.
        """
        row = asdict(self)
        for name in ("value", "limit"):
            if row[name] is not None and not isfinite(row[name]):
                row[name] = None
        return row


def check_at_most(limit: float, name: str, value: float, means: str) -> Check:
    """Return a check that passes when `value` is finite and at most `limit`."""
    # NaN <= limit is false; infinity is excluded even where the limit itself is infinite.
    return Check(name, bool(value <= limit and isfinite(value)), float(value), float(limit), means)


def checks_not_made(why: str, *names: str) -> list[Check]:
    """Return checks that could not be made here, with the reason."""
    return [Check(name, True, None, None, f"Not checked: {why}.") for name in names]


@dataclass(frozen=True)
class CapturedRun:
    """A run as the checks see it. Arrays have no batch axis.

    A tensor that was not captured is not in `tensors`. `source`, `inputs` and `target` are ids:
    what the encoder read, what the decoder read, what it wrote. `replaced` names the tensors that
    an edit replaced.
    """

    config: ModelConfig
    tensors: Mapping[str, np.ndarray]
    source: Sequence[int]
    inputs: Sequence[int]
    target: Sequence[int]
    model: Transformer
    replaced: frozenset[str] = frozenset()
    steps: Sequence[DecodingStep] = ()
    tree: SearchTree | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    pieces: Callable[[Sequence[int]], list[str]] = lambda ids: [str(token) for token in ids]

    @classmethod
    def from_trace(cls, trace: TraceData) -> "CapturedRun":
        """Return the parts of a trace that the checks look at."""
        return cls(
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

    @property
    def rounding(self) -> float:
        """Largest difference to expect between two ways of computing a number, relative to the largest of its kind."""
        types = {tensor.dtype.name for tensor in self.tensors.values()}
        return 1e-10 if types <= {"float64", "bool"} else 1e-5

    def why_not_checked(
        self,
        *names: str,
        edits: bool = False,
        formulas: bool = False,
    ) -> str | None:
        """Return the reason why a check that needs these tensors cannot be made; None if it can.

        With `edits`, replaced tensors prevent it; with `formulas`, it needs to know every module of
        the model, because it computes them again.
        """
        if edits and self.replaced:
            return f"an edit replaced {_list_first_names(self.replaced)}"
        if formulas and (foreign := unknown_parts(self.model)):
            return f"the model has a part that this check cannot compute: {foreign[0]}"
        missing = [name for name in names if name not in self.tensors]
        return f"{_list_first_names(missing)} not captured" if missing else None

    def parameter(self, name: str) -> np.ndarray:
        """Return a weight by its name."""
        return self.model.get_parameter(name).detach().cpu().numpy()

    def as_batch(self, ids: Iterable[int]) -> torch.Tensor:
        """Return ids as a batch of one sentence, on the model's device."""
        return torch.tensor([list(ids)], device=self.model.output_embedding.weight.device)


def _list_first_names(names: Collection[str]) -> str:
    """List the first two names, and how many more there are.

    >>> _list_first_names(["a", "b", "c", "d"])
    'a, b and 2 more'
    """
    first, more = sorted(names)[:2], len(names) - 2
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def check_patterns(run: CapturedRun) -> Iterator[Check]:
    """Check that each row of a pattern is a distribution over the keys it may read."""
    names = []
    for name in run.tensors:
        is_unedited_pattern = name.endswith(".pattern") and name not in run.replaced
        if is_unedited_pattern and name.replace(".pattern", ".allowed") in run.tensors:
            names.append(name)

    sum_name, zero_name = "rows of every pattern sum to 1", "what may not be read has weight 0"
    if not names:
        yield from checks_not_made("no unedited pattern was captured", sum_name, zero_name)
        return

    sum_error, forbidden_weight = 0.0, 0.0
    for name in names:
        pattern = run.tensors[name].astype(np.float64)
        allowed = run.tensors[name.replace(".pattern", ".allowed")] != 0
        if name.startswith("decoder") and ".self." in name:
            # A model whose mask lets the future through
            # would otherwise be measured by its own mistake.
            allowed = allowed & np.tri(allowed.shape[-1], dtype=bool)

        allowed, sums = np.broadcast_to(allowed, pattern.shape), pattern.sum(axis=-1)
        # A row that may read nothing is all zeros, and sums to 0.
        expected = np.broadcast_to(allowed.any(axis=-1), sums.shape)
        sum_error = largest_difference(sum_error, sums - expected)
        forbidden_weight = largest_difference(
            forbidden_weight, np.where(allowed, 0.0, pattern), np.minimum(pattern, 0.0)
        )

    omitted = f"; {_list_first_names(run.replaced)} left out, edited" if run.replaced else ""
    rows = sum(run.tensors[name].shape[0] * run.tensors[name].shape[1] for name in names)
    yield check_at_most(
        min(run.rounding, 1e-6),
        sum_name,
        sum_error,
        f"Largest distance from 1 over {rows:,} rows{omitted}.",
    )
    yield check_at_most(
        0.0,
        zero_name,
        forbidden_weight,
        f"Largest weight on padding or on later positions in {len(names)} patterns, or largest negative weight.",
    )


def check_recomputed(run: CapturedRun) -> Check:
    """Check every captured tensor by recomputing it from the captured tensors it is made of."""
    name = "every number follows from its inputs"
    if reason := run.why_not_checked(formulas=True):
        return checks_not_made(reason, name)[0]
    ids = {"source": run.source, "target": run.inputs}

    errors: dict[str, float] = {}
    for tensor, operation in operations(run.config).items():
        is_captured = run.tensors.keys() >= {tensor, *operation.inputs}
        if operation.kind == "given" or tensor in run.replaced or not is_captured:
            continue
        captured = run.tensors[tensor].astype(np.float64)
        inputs = [run.tensors[input_name] for input_name in operation.inputs]
        # From captured inputs rather than recomputed
        # ones, so that an error stays where it was made.
        recomputed = recompute(operation, inputs, run.parameter, ids, captured.shape)
        scale = largest_difference(0.0, recomputed) or 1.0
        errors[tensor] = largest_difference(0.0, captured - recomputed) / scale

    if not errors:
        reason = "no tensor was captured together with those it is computed from"
        return checks_not_made(reason, name)[0]

    # NaN compares as neither larger nor smaller, so max alone might pass over it.
    worst = max(errors, key=lambda checked: (np.isnan(errors[checked]), errors[checked]))
    omitted = f"; {_list_first_names(run.replaced)} left out, edited" if run.replaced else ""
    return check_at_most(
        run.rounding,
        name,
        errors[worst],
        f"{len(errors)} tensors recomputed in NumPy; the largest difference is in {worst}, as a share of its largest "
        f"number{omitted}.",
    )


def check_accounts(run: CapturedRun) -> Iterator[Check]:
    """Check that the parts of every written piece's logit add up to it, and would not if the largest were missing."""
    limit = 1e-10 if run.rounding < 1e-9 else 1e-4
    sums = "the parts of each written piece's logit add up to it"
    control = "test of the test: without the largest part, the sum is wrong, as it should be"
    needed = [name for name in operations(run.config) if name.startswith(("logits", "decoder."))]
    if reason := run.why_not_checked(*needed, formulas=True):
        yield from checks_not_made(reason, sums, control)
        return

    questions = [LogitQuestion(step, token) for step, token in enumerate(run.target)]
    accounts = account_for_logits(
        run.config,
        run.tensors.__getitem__,
        run.parameter,
        run.pieces,
        questions,
    )
    part_count = len(accounts[0].parts)
    yield check_at_most(
        limit,
        sums,
        largest_difference(0.0, *(np.array(account.error) for account in accounts)),
        f"The largest difference, as a share; {part_count} parts at each of {len(accounts)} steps, with fixed norms.",
    )
    misses = [_error_without_largest(account) for account in accounts]
    yield check_at_most(
        0,
        control,
        # "not >" rather than "<=", so that NaN counts as a failure.
        float(sum(not miss > limit for miss in misses)),
        f"Number of steps that would pass the check above even without the largest part; the smallest difference is "
        f"{min(misses):.2g}.",
    )


def _error_without_largest(account: LogitAccount) -> float:
    """Return by how much the parts miss the logit when the largest is left out, relative to it."""
    values = [part.value for part in account.parts]
    largest = max(values, key=abs)
    return abs(account.sum - largest - account.logit) / max(
        abs(largest),
        abs(account.logit),
        np.finfo(float).tiny,
    )


def check_steps(run: CapturedRun) -> Iterator[Check]:
    """Check that each step says of its candidates what the logits say."""
    whole_name = "the probabilities of each step sum to 1"
    same_name = "the numbers of each step follow from the logits"
    if not run.steps:
        yield from checks_not_made("no steps were kept", whole_name, same_name)
        return

    distances = []
    for step in run.steps:
        total = sum(candidate.prob for candidate in step.top) + step.others
        distances.append(np.array(total - 1.0))

    error = largest_difference(0.0, *distances)
    says = f"Largest distance from 1 over {len(run.steps)} steps."
    yield check_at_most(1e-6, whole_name, error, says)
    if reason := run.why_not_checked("logits"):
        yield from checks_not_made(reason, same_name)
        return

    error = 0.0
    for step in run.steps:
        logits = run.tensors["logits"][step.step].astype(np.float64)
        # Subtracting the largest logit changes no probability, and keeps exp from overflowing.
        raised = np.exp(logits - logits.max())
        probabilities = raised / raised.sum()
        for rank, candidate in [(step.rank, step.chosen), *enumerate(step.top, start=1)]:
            token = candidate.id
            # Of equal logits the lower id comes first, as in the stable sort of `decoding_steps`.
            before = np.sum(logits > logits[token]) + np.sum(logits[:token] == logits[token])
            prob = np.exp(candidate.log_prob)
            stated = np.array([candidate.logit, candidate.prob, prob, rank - 1])
            follows = np.array([logits[token], probabilities[token], probabilities[token], before])
            error = largest_difference(error, stated - follows)

        entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, np.finfo(float).tiny)))
        error = largest_difference(
            error, step.entropy - entropy, np.array(step.others_count + len(step.top) - len(logits))
        )

    yield check_at_most(
        1e-5,
        same_name,
        error,
        "The largest difference when logits, probabilities, ranks and entropies are computed from the captured logits.",
    )


def largest_difference(least: float, *differences: np.ndarray) -> float:
    """Return the largest absolute value of all numbers, at least `least`.

    NaN if any of them is NaN.
    """
    largest = [least]
    for difference in differences:
        largest.append(np.max(np.abs(difference), initial=0.0))
    return float(np.max(largest))
