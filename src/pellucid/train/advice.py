"""What a plan would change, each a sentence with its reason and the setting to write."""

from collections.abc import Iterator
from math import ceil

from pellucid.train.defaults import SCALES
from pellucid.train.distributed import ALONE
from pellucid.train.plan import LEAST_OCCURRENCES, RunPlan
from pellucid.train.precision import explain_float32
from pellucid.train.units import format_bytes, format_count, format_seconds

LONG_RUN_SECONDS = 24 * 3600.0
"""Seconds after which a run is worth a word on how to shorten it."""

LEAST_THREAD_SHARE = 0.6
"""Share of its threads that a process alone on a machine has at least; some is lost in waiting for one another."""

FULL_BATCH_SHARE = 0.88
"""Share of a batch that is worth no word."""


def list_advice(plan: RunPlan) -> list[str]:
    """Everything that should be seen to before training, the gravest first; nothing for a plan that is sound."""
    return [sentence for look in ADVISERS for sentence in look(plan)]


def advise_dev_files(plan: RunPlan) -> Iterator[str]:
    """Files to measure with that are not there."""
    if plan.missing_dev:
        yield (
            f"dev files missing: {', '.join(plan.missing_dev)}; training would be refused. Put them there, or leave "
            f"the names out and data.held_out = {plan.run.data.held_out} of the training pairs take their place, as "
            "they did here"
        )


def advise_memory(plan: RunPlan) -> Iterator[str]:
    """A batch that does not fit."""
    c, free = plan.run.train, plan.free_memory
    if plan.trial is None:
        what = f"memory: about {format_bytes(plan.memory.total)} are needed"
        what += (
            f" and {format_bytes(free)} are free, so nothing was tried"
            if free is not None
            else ", and that was too much"
        )
    elif plan.trial.halved:
        what = f"memory: the largest batch did not fit and was split, {plan.trial.halved} times"
    else:
        return
    yield (
        f"{what}; set train.batch_tokens = {-(-c.batch_tokens // 2)} and train.accumulate = {2 * c.accumulate}, or "
        "choose a smaller model"
    )


def advise_disk(plan: RunPlan) -> Iterator[str]:
    """Checkpoints that do not fit."""
    if plan.disk > plan.free_disk:
        yield (
            f"disk: {format_bytes(plan.disk)} are needed and {format_bytes(plan.free_disk)} are free "
            "here; keep fewer than "
            f"train.keep = {plan.run.train.keep} checkpoints, or choose --out on another disk"
        )


def advise_finite_loss(plan: RunPlan) -> Iterator[str]:
    """A loss that is no number within the first updates."""
    if plan.trial and not abs(plan.trial.loss) < float("inf"):
        yield f"the loss was {plan.trial.loss} within the trial; lower optim.peak = {plan.run.optim.peak:g}"


def advise_busy_machine(plan: RunPlan) -> Iterator[str]:
    """Other programs that make every time too long."""
    if plan.trial and plan.trial.device == "cpu" and plan.trial.share < LEAST_THREAD_SHARE:
        yield (
            f"the updates that were tried had {plan.trial.share:.0%} of the time of {plan.trial.threads} "
            f"thread{'s' * (plan.trial.threads != 1)}: where other programs run, plan again when they are done"
        )


def advise_vocabulary(plan: RunPlan) -> Iterator[str]:
    """Pieces that stand too seldom in the text to be learned; a model to start from has learned its own."""
    if plan.stand_in or plan.run.model.start:
        return
    asked, got, pairs = plan.run.tokenizer.vocabulary, min(plan.learned), len(plan.epoch.encoded)
    if got < asked or plan.supported < got / 2:
        why = (
            f"the text has no more than {got:,} pieces"
            if got < asked
            else f"only {plan.supported:,} of its pieces stand {LEAST_OCCURRENCES} times or more in the text"
        )
        yield (
            f"the vocabulary of {asked:,} is more than {pairs:,} pairs of text support: {why}; "
            f"set tokenizer.vocabulary = {max(plan.supported, 261)}"
        )


def advise_size(plan: RunPlan) -> Iterator[str]:
    """A model too large for its data; named sizes only, for who sets the numbers apart has reasons."""
    settings, pairs = plan.run.model, len(plan.epoch.encoded)
    apart = any(getattr(settings, name) is not None for name in ("d_model", "d_ff", "encoder_layers", "decoder_layers"))
    if plan.stand_in or apart:
        return
    sizes = [each.size for each in SCALES]
    suited = next(scale for scale in SCALES if pairs <= scale.pairs)
    if sizes.index(settings.size) > sizes.index(suited.size):
        yield (
            f"{settings.size} has {format_count(plan.parameters.total)} parameters, and {pairs:,} pairs "
            "would be learned "
            f"by heart; set model.size = {suited.size} and model.dropout = {suited.dropout}"
        )


def advise_warmup(plan: RunPlan) -> Iterator[str]:
    """A learning rate that never comes to its top."""
    c, steps = plan.run.optim, plan.steps
    if steps is None or c.warmup < steps:
        return
    if c.schedule == "linear":
        yield f"warm-up longer than the run: optim.warmup = {c.warmup:,} of {steps:,} updates is cut to a fifth of them"
    else:
        yield (
            f"warm-up longer than the run: the learning rate still rises at its end, after {steps:,} of optim.warmup = "
            f"{c.warmup:,} updates; set optim.warmup = {max(1, steps // 10)} or optim.schedule = linear"
        )


def advise_epochs(plan: RunPlan) -> Iterator[str]:
    """Pairs that are never seen."""
    if plan.epochs is not None and plan.epochs < 1 and not plan.stand_in:
        yield (
            f"the run ends before every pair was seen: {plan.steps:,} updates are {plan.epochs:.2f} epochs; "
            f"an epoch takes train.steps = {ceil(plan.updates_per_epoch)}"
        )


def advise_speed(plan: RunPlan) -> Iterator[str]:
    """More than a day of updates."""
    if plan.trial is None or plan.run.train.steps is None or plan.seconds is None or plan.seconds <= LONG_RUN_SECONDS:
        return
    halve = plan.run.train.precision == "float32" and not explain_float32("bfloat16", ALONE.device)
    faster = "try train.precision = bfloat16, " if halve else ""
    yield (
        f"at this speed {plan.steps:,} steps take {format_seconds(plan.seconds)}: {faster}train on "
        "a faster machine, or set "
        f"train.steps = {int(LONG_RUN_SECONDS / plan.trial.seconds)}, which is a day"
    )


def advise_precision(plan: RunPlan) -> Iterator[str]:
    """Products that are not made as the settings say."""
    if said := explain_float32(plan.run.train.precision, ALONE.device):
        yield f"{said}; a machine that has it takes about half the time"


def advise_batches(plan: RunPlan) -> Iterator[str]:
    """An update that is smaller than the settings say."""
    asked, filled = plan.run.train.batch_tokens, plan.epoch.target_positions / len(plan.epoch.order)
    if len(plan.epoch.order) > 1 and filled < FULL_BATCH_SHARE * asked and not plan.stand_in:
        yield (
            f"batches average {filled:,.0f} of {asked:,} positions: pairs of like length run out before a batch is "
            f"full; for {asked:,} on average set train.batch_tokens = {round(asked * asked / filled)}"
        )
    rows, _, targets = plan.epoch.shapes.T
    over = int(((rows == 1) & (targets > asked)).sum())
    if over:
        yield f"{over:,} pairs are longer than a whole batch of train.batch_tokens = {asked:,}"


def advise_averaging(plan: RunPlan) -> Iterator[str]:
    """More checkpoints to average than there will be."""
    if plan.saved is not None and plan.saved < plan.run.train.keep:
        yield (
            f"train.keep = {plan.run.train.keep} checkpoints are to be averaged and {plan.saved} are saved; "
            "set train.save_every lower"
        )


ADVISERS = (
    advise_dev_files,
    advise_memory,
    advise_disk,
    advise_finite_loss,
    advise_busy_machine,
    advise_vocabulary,
    advise_size,
    advise_warmup,
    advise_epochs,
    advise_speed,
    advise_precision,
    advise_batches,
    advise_averaging,
)
