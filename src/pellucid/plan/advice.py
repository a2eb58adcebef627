"""Advice on a plan: each a sentence with its reason and the setting to write."""

from collections.abc import Iterator
from math import ceil

from pellucid.plan.estimate import LEAST_OCCURRENCES, RunPlan
from pellucid.processor import BUSY_SHARE, describe_busy_machine
from pellucid.train.defaults import SCALES
from pellucid.train.distributed import ALONE
from pellucid.train.update import explain_float32

_LONG_RUN_SECONDS = 24 * 3600.0
"""Seconds beyond which a run gets advice on how to shorten it."""

_FULL_BATCH_SHARE = 0.88
"""Share of a batch that must be filled to need no advice."""


def list_advice(plan: RunPlan) -> list[str]:
    """Return all advice on a plan, the most serious first; an empty list if the plan is sound."""
    return [sentence for adviser in _ADVISERS for sentence in adviser(plan)]


def advise_dev_files(plan: RunPlan) -> Iterator[str]:
    """Advise on dev files that do not exist."""
    if plan.missing_dev:
        yield (
            f"dev files missing: {', '.join(plan.missing_dev)}; training would be refused. Put them there, or leave "
            f"the names out: then data.held_out = {plan.run.data.held_out} of the training pairs take their place, as "
            "they did here"
        )


def _advise_memory(plan: RunPlan) -> Iterator[str]:
    """Advise on a batch that does not fit in memory."""
    c, free = plan.run.train, plan.free_memory
    if plan.trial is None:
        problem = f"memory: about {format_bytes(plan.memory.total)} are needed"
        problem += (
            f" and {format_bytes(free)} are free, so nothing was tried"
            if free is not None
            else ", and that was too much"
        )
    elif plan.trial.halved:
        problem = f"memory: the largest batch did not fit and was split, {plan.trial.halved} times"
    else:
        return
    # Half the batch and twice as many of them: the update stays the same.
    yield (
        f"{problem}; set train.batch_tokens = {-(-c.batch_tokens // 2)} and train.accumulate = {2 * c.accumulate}, or "
        "choose a smaller model"
    )


def _advise_disk(plan: RunPlan) -> Iterator[str]:
    """Advise on checkpoints that do not fit on the disk."""
    if plan.disk > plan.free_disk:
        yield (
            f"disk: {format_bytes(plan.disk)} are needed and {format_bytes(plan.free_disk)} are free "
            f"here; keep fewer than train.keep = {plan.run.train.keep} checkpoints, or choose --out on another disk"
        )


def _advise_finite_loss(plan: RunPlan) -> Iterator[str]:
    """Advise on a loss that is not finite within the trial."""
    # Written this way round, the test finds NaN, too.
    if plan.trial and not abs(plan.trial.loss) < float("inf"):
        yield f"the loss was {plan.trial.loss} within the trial; lower optim.peak = {plan.run.optim.peak:g}"


def _advise_busy_machine(plan: RunPlan) -> Iterator[str]:
    """Advise on other programs that make every time too long."""
    trial = plan.trial
    if trial and trial.device == "cpu" and trial.share is not None and trial.share < BUSY_SHARE:
        yield describe_busy_machine(trial.share) + "; if they will be done soon, plan again then"


def _advise_vocabulary(plan: RunPlan) -> Iterator[str]:
    """Advise on a vocabulary with pieces too rare in the text to be learned."""
    # Phrasebook text says nothing about the real one; an initial model brings its own vocabulary.
    if plan.stand_in or plan.run.model.start:
        return
    requested, learned, pairs = plan.run.tokenizer.vocabulary, min(plan.learned), len(plan.epoch.encoded)
    if learned < requested or plan.supported < learned / 2:
        reason = (
            f"the text has no more than {learned:,} pieces"
            if learned < requested
            else f"only {plan.supported:,} of its pieces stand {LEAST_OCCURRENCES} times or more in the text"
        )
        yield (
            f"the vocabulary of {requested:,} is more than {pairs:,} pairs of text support: {reason}; "
            # No vocabulary is smaller than 261: four special tokens, 256 bytes, and one piece.
            f"set tokenizer.vocabulary = {max(plan.supported, 261)}"
        )


def _advise_size(plan: RunPlan) -> Iterator[str]:
    """Advise on a model that is too large for its data."""
    settings, pairs = plan.run.model, len(plan.epoch.encoded)
    has_own_numbers = any(
        getattr(settings, name) is not None for name in ("d_model", "d_ff", "encoder_layers", "decoder_layers")
    )
    # Only named sizes: whoever sets the numbers one by one has reasons.
    if plan.stand_in or has_own_numbers:
        return
    sizes = [scale.size for scale in SCALES]
    suited = next(scale for scale in SCALES if pairs <= scale.pairs)
    if sizes.index(settings.size) > sizes.index(suited.size):
        yield (
            f"{settings.size} has {format_count(plan.parameters.total)} parameters, and {pairs:,} pairs "
            f"would be learned by heart; set model.size = {suited.size} and model.dropout = {suited.dropout}"
        )


def _advise_warmup(plan: RunPlan) -> Iterator[str]:
    """Advise on a learning rate that never reaches its peak."""
    c, steps = plan.run.optim, plan.steps
    if steps is None or c.warmup < steps:
        return
    # The linear schedule shortens its warm-up by itself: see `learning_rate`.
    if c.schedule == "linear":
        yield f"warm-up longer than the run: optim.warmup = {c.warmup:,} of {steps:,} updates is cut to a fifth of them"
    else:
        yield (
            f"warm-up longer than the run: the learning rate still rises at its end, after {steps:,} of optim.warmup = "
            f"{c.warmup:,} updates; set optim.warmup = {max(1, steps // 10)} or optim.schedule = linear"
        )


def _advise_epochs(plan: RunPlan) -> Iterator[str]:
    """Advise on a run that ends before it has seen every pair."""
    if plan.epochs is not None and plan.epochs < 1 and not plan.stand_in:
        yield (
            f"the run ends before every pair was seen: {plan.steps:,} updates are {plan.epochs:.2f} epochs; "
            f"an epoch takes train.steps = {ceil(plan.updates_per_epoch)}"
        )


def _advise_speed(plan: RunPlan) -> Iterator[str]:
    """Advise on a run of more than a day."""
    if plan.trial is None or plan.run.train.steps is None or plan.seconds is None or plan.seconds <= _LONG_RUN_SECONDS:
        return
    bfloat16_helps = plan.run.train.precision == "float32" and not explain_float32("bfloat16", ALONE.device)
    faster = "try train.precision = bfloat16, " if bfloat16_helps else ""
    yield (
        f"at this speed {plan.steps:,} steps take {format_seconds(plan.seconds)}: {faster}train on "
        f"a faster machine, or set train.steps = {int(_LONG_RUN_SECONDS / plan.trial.seconds)}, which is a day"
    )


def _advise_precision(plan: RunPlan) -> Iterator[str]:
    """Advise on products that are not computed in the precision of the settings."""
    if explanation := explain_float32(plan.run.train.precision, ALONE.device):
        yield f"{explanation}; a machine that has it takes about half the time"


def _advise_batches(plan: RunPlan) -> Iterator[str]:
    """Advise on batches that are smaller or larger than the settings say."""
    budget, average = plan.run.train.batch_tokens, plan.epoch.target_positions / len(plan.epoch.order)
    # A corpus of one batch cannot fill it, whatever the budget.
    if len(plan.epoch.order) > 1 and average < _FULL_BATCH_SHARE * budget and not plan.stand_in:
        yield (
            f"batches average {average:,.0f} of {budget:,} positions: pairs of like length run out before a batch is "
            f"full; for {budget:,} on average set train.batch_tokens = {round(budget * budget / average)}"
        )
    rows, _, targets = plan.epoch.shapes.T
    # A pair longer than the budget is a batch of its own.
    too_long = int(((rows == 1) & (targets > budget)).sum())
    if too_long:
        yield f"{too_long:,} pairs are longer than a whole batch of train.batch_tokens = {budget:,}"


def _advise_averaging(plan: RunPlan) -> Iterator[str]:
    """Advise on fewer saved checkpoints than are to be kept, of which the last are averaged."""
    if plan.saved is not None and plan.saved < plan.run.train.keep:
        yield (
            f"train.keep = {plan.run.train.keep} checkpoints are to be kept and {plan.saved} are saved; "
            "set train.save_every lower"
        )


# In the order in which their advice is shown: what stops a run comes before what makes it worse.
_ADVISERS = (
    advise_dev_files,
    _advise_memory,
    _advise_disk,
    _advise_finite_loss,
    _advise_busy_machine,
    _advise_vocabulary,
    _advise_size,
    _advise_warmup,
    _advise_epochs,
    _advise_speed,
    _advise_precision,
    _advise_batches,
    _advise_averaging,
)


def format_bytes(n: float) -> str:
    """Return a number of bytes as text.

    >>> format_bytes(900), format_bytes(12_345_678), format_bytes(2.5e9)
    ('900 bytes', '12 MB', '2.5 GB')
    """
    return _format_scaled(n, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), f"{n:,.0f} bytes")


def format_count(n: float) -> str:
    """Return a large number as text.

    >>> format_count(61_300_000), format_count(850)
    ('61 M', '850')
    """
    return _format_scaled(n, ((1e9, "G"), (1e6, "M"), (1e3, "k")), f"{n:,.0f}")


def format_seconds(seconds: float) -> str:
    """Return a length of time as text.

    >>> format_seconds(0.25), format_seconds(100), format_seconds(7200), format_seconds(9 * 86400)
    ('0.25 s', '1.7 min', '2.0 h', '9.0 days')
    """
    return _format_scaled(seconds, ((86400, "days"), (3600, "h"), (60, "min")), f"{seconds:.2g} s")


def _format_scaled(n: float, units: tuple[tuple[float, str], ...], small: str) -> str:
    """Return `n` in the largest unit of which it has at least one; `small` if it has none."""
    for size, unit in units:
        if n >= size:
            # One decimal below ten, none above: two digits at least, and no false precision.
            return f"{n / size:,.1f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return small
