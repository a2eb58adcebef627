"""Advice on a plan: each a sentence with its reason and the setting to write."""

from collections.abc import Iterator
from math import ceil

from pellucid.cpu import BUSY_SHARE, describe_busy_machine
from pellucid.training.defaults import SCALES
from pellucid.training.distributed import ALONE
from pellucid.training.process import explain_float32
from pellucid.training.schedule import SCHEDULES
from pellucid.workflows.plan.estimate import LEAST_OCCURRENCES, RunPlan

_LONG_RUN_SECONDS = 24 * 3600.0  # seconds beyond which a run gets advice on how to shorten it
_FULL_BATCH_SHARE = 0.88  # share of a batch that must be filled to need no advice


def list_advice(plan: RunPlan) -> list[str]:
    """Return all advice on a plan, the most serious first; an empty list if the plan is sound."""
    return [sentence for adviser in _ADVISERS for sentence in adviser(plan)]


def _advise_what_stops_a_run(plan: RunPlan) -> Iterator[str]:
    """Advise on missing files, memory, the disk, and a loss that is not finite."""
    run, trial, free = plan.run, plan.trial, plan.free_memory
    if plan.missing_dev:
        yield (
            f"dev files missing: {', '.join(plan.missing_dev)}; training would be refused. Put them there, or leave "
            f"the names out: then data.held_out = {run.data.held_out} of the training pairs take their place, as "
            "they did here"
        )

    problem = None
    if trial is None:
        problem = f"memory: about {format_bytes(plan.memory.total)} are needed"
        if free is None:
            problem += ", and that was too much"
        else:
            problem += f" and {format_bytes(free)} are free, so nothing was tried"
    elif trial.halved:
        problem = f"memory: the largest batch did not fit and was split, {trial.halved} times"

    if problem:
        # Half the batch and twice as many of them: the update stays the same.
        yield (
            f"{problem}; set train.batch_tokens = {-(-run.train.batch_tokens // 2)} and train.accumulate = "
            f"{2 * run.train.accumulate}, or choose a smaller model"
        )

    if plan.disk > plan.free_disk:
        yield (
            f"disk: {format_bytes(plan.disk)} are needed and {format_bytes(plan.free_disk)} are free "
            f"here; keep fewer than train.keep = {run.train.keep} checkpoints, or choose --out on another disk"
        )

    # Written this way round, the test finds NaN, too.
    if trial and not abs(trial.loss) < float("inf"):
        yield f"the loss was {trial.loss} within the trial; lower optim.peak = {run.optim.peak:g}"
    if trial and trial.device == "cpu" and trial.share is not None and trial.share < BUSY_SHARE:
        yield describe_busy_machine(trial.share) + "; if they will be done soon, plan again then"


def _advise_sizes(plan: RunPlan) -> Iterator[str]:
    """Advise on a vocabulary with pieces too rare to be learned, and on a model too large for its data."""
    run, settings, pairs = plan.run, plan.run.model, len(plan.epoch.encoded)
    if plan.stand_in:  # phrasebook text says nothing about the real one
        return
    requested, learned = run.tokenizer.vocabulary, min(plan.learned)

    # A model to start from brings its own vocabulary.
    if not settings.start and (learned < requested or plan.supported < learned / 2):
        reason = f"only {plan.supported:,} of its pieces stand {LEAST_OCCURRENCES} times or more in the text"
        if learned < requested:
            reason = f"the text has no more than {learned:,} pieces"
        yield (
            f"the vocabulary of {requested:,} is more than {pairs:,} pairs of text support: {reason}; "
            # No vocabulary is smaller than 261: four special tokens, 256 bytes, and one piece.
            f"set tokenizer.vocabulary = {max(plan.supported, 261)}"
        )

    # Only named sizes: whoever sets the numbers one by one has reasons.
    numbers = (settings.d_model, settings.d_ff, settings.encoder_layers, settings.decoder_layers)
    sizes = [scale.size for scale in SCALES]
    suited = next(scale for scale in SCALES if pairs <= scale.pairs)
    if numbers == (None,) * 4 and sizes.index(settings.size) > sizes.index(suited.size):
        yield (
            f"{settings.size} has {format_count(plan.parameters.total)} parameters, and {pairs:,} pairs "
            f"would be learned by heart; set model.size = {suited.size} and model.dropout = {suited.dropout}"
        )


def _advise_length(plan: RunPlan) -> Iterator[str]:
    """Advise on a learning rate that never reaches its peak, and on a run that is too short or too long."""
    c, steps, trial = plan.run.optim, plan.steps, plan.trial
    if steps is not None and c.warmup >= steps:
        if SCHEDULES[c.schedule].shortens_warmup:
            reason = f"optim.warmup = {c.warmup:,} of {steps:,} updates is cut to a fifth of them"
        else:
            reason = (
                f"the learning rate still rises at its end, after {steps:,} of optim.warmup = {c.warmup:,} updates; "
                f"set optim.warmup = {max(1, steps // 10)} or optim.schedule = linear"
            )
        yield f"warm-up longer than the run: {reason}"

    if plan.epochs is not None and plan.epochs < 1 and not plan.stand_in:
        yield (
            f"the run ends before every pair was seen: {steps:,} updates are {plan.epochs:.2f} epochs; "
            f"an epoch takes train.steps = {ceil(plan.updates_per_epoch)}"
        )

    seconds = plan.seconds or 0.0
    if trial and plan.run.train.steps is not None and seconds > _LONG_RUN_SECONDS:
        faster = ""
        is_float32 = plan.run.train.precision == "float32"
        if is_float32 and not explain_float32("bfloat16", ALONE.device):
            faster = "try train.precision = bfloat16, "
        yield (
            f"at this speed {steps:,} steps take {format_seconds(seconds)}: {faster}train on "
            f"a faster machine, or set train.steps = {int(_LONG_RUN_SECONDS / trial.seconds)}, which is a day"
        )

    if emulated := explain_float32(plan.run.train.precision, ALONE.device):
        yield f"{emulated}; a machine that has it takes about half the time"


def _advise_batches(plan: RunPlan) -> Iterator[str]:
    """Advise on batches that are smaller or larger than the settings say, and on too few checkpoints to average."""
    budget, average = (
        plan.run.train.batch_tokens,
        plan.epoch.target_positions / plan.epoch.batches,
    )

    # A corpus of one batch cannot fill it, with any budget.
    if plan.epoch.batches > 1 and average < _FULL_BATCH_SHARE * budget and not plan.stand_in:
        yield (
            f"batches average {average:,.0f} of {budget:,} positions: pairs of like length run out before a batch is "
            f"full; for {budget:,} on average set train.batch_tokens = {round(budget * budget / average)}"
        )

    rows, _, targets = plan.epoch.shapes.T
    # A pair longer than the budget is a batch of its own.
    is_too_long = (rows == 1) & (targets > budget)
    if too_long := int(plan.epoch.shape_counts[is_too_long].sum()):
        yield f"{too_long:,} pairs are longer than a whole batch of train.batch_tokens = {budget:,}"
    if plan.saved is not None and plan.saved < plan.run.train.keep:
        yield (
            f"train.keep = {plan.run.train.keep} checkpoints are to be kept and {plan.saved} are saved; "
            "set train.save_every lower"
        )


# In the order in which their advice is shown: what stops a run comes before what makes it worse.
_ADVISERS = (_advise_what_stops_a_run, _advise_sizes, _advise_length, _advise_batches)


def format_bytes(n: float) -> str:
    """Return a number of bytes as text.

    >>> format_bytes(900), format_bytes(12_345_678), format_bytes(2.5e9)
    ('900 bytes', '12 MB', '2.5 GB')
    """
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return _format_scaled(n, units, f"{n:,.0f} bytes")


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
    """Return `n` in the largest unit that is not larger than `n`; `small` if every unit is larger."""
    for size, unit in units:
        if n >= size:
            # One decimal below ten, none above: two digits at least, and no false precision.
            return f"{n / size:,.1f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return small
