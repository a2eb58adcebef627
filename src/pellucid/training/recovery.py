"""Recovery from an update that went wrong.

A batch that does not fit in memory is split. What went wrong is reported and counted; after too many gradients in a row
that are not finite, the run goes back to an earlier checkpoint.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from pellucid.data.batching import Batch, halve_batch
from pellucid.model import Transformer
from pellucid.store.atomic import read_manifest
from pellucid.store.directory import Bundle, load_bundle
from pellucid.training.checkpoint import (
    RunCounts,
    TrainState,
    checkpoint_path,
    checkpoint_step,
    list_checkpoints,
    reset_weights,
)
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import ALONE, TrainingFailed, Workers, is_sharded
from pellucid.training.log import PlainOutput, ProgressOutput
from pellucid.training.optimizer import Optimizer
from pellucid.training.update import BatchTooLarge, UpdateResult, update_weights

_MOST_SKIPPED_IN_A_ROW = 20  # skipped updates in a row after which the weights are considered spoiled
_MOST_FRUITLESS_ROLLBACKS = 3  # most times that a run goes back without a good checkpoint in between


def update_within_memory(
    model: Transformer,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    rate: float,
    c: OptimConfig,
    precision: str,
    workers: Workers = ALONE,
) -> UpdateResult:
    """Make one update (`update_weights`), with batches that do not fit in memory split in two until they do.

    A pair that does not fit even alone is left out. Raises MemoryError when memory does not suffice for a single pair,
    and for a sharded model when it does not suffice for a batch.
    """
    batches, halved, left_out = list(batches), 0, []
    while True:
        try:
            return update_weights(model, optimizer, batches, rate, c, precision, workers, halved, left_out)
        except BatchTooLarge as error:
            # Only its number: the error refers to the tensors of the batch, which are freed when this block is left.
            index = error.index
        # A worker of a sharded model cannot retry alone: the others wait for it in every layer.
        if is_sharded(model):
            raise MemoryError(
                f"{len(batches[index].source)} pairs did not fit beside this worker's part of the model, "
                "and where train.shard_model is true all workers go through the layers together, so that one cannot "
                "split its batch; resume with more workers, or begin anew with a smaller train.batch_tokens and a "
                "larger train.accumulate"
            )
        # All batches are run again: a backward pass that ran out of memory half-way leaves half a gradient.
        model.zero_grad(set_to_none=True)
        # Free blocks that torch still holds have the sizes of the batch that failed, not of its halves.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        batch = batches.pop(index)
        if len(batch.source) > 1:
            batches[index:index] = halve_batch(batch)
            halved += 1
        else:
            left_out.append(batch)


def recover(
    state: TrainState, result: UpdateResult, out: Path, peak: float, output: ProgressOutput, workers: Workers = ALONE
) -> None:
    """Count and report what went wrong in an update; go back after too many gradients that are not finite."""
    counts = state.counts
    # Reported once: it may recur in every epoch.
    if result.halved and not counts.halved_batches:
        output.say(
            f"step {counts.step:,}: a batch did not fit in memory; such batches are split in two, which costs time and "
            "changes nothing else (said once; a smaller train.batch_tokens with more train.accumulate avoids it)"
        )
    for pair in result.left_out:
        # On other workers `output` discards everything, and only they know about their own pairs.
        (output if workers.is_first else PlainOutput(f"worker {workers.rank}: ")).say(
            f"step {counts.step:,}: a pair of {pair.source.shape[1]} source and {pair.target_out.shape[1]} target "
            "pieces did not fit in memory even alone and was left out (data.max_pieces keeps longer ones out)"
        )
    counts.halved_batches += result.halved
    counts.pairs_left_out += result.pairs_left_out
    counts.skipped_updates += result.skipped
    counts.skipped_in_a_row = counts.skipped_in_a_row + 1 if result.skipped else 0
    # A multiple, for after going back the count runs on until an update succeeds.
    if result.skipped and counts.skipped_in_a_row % _MOST_SKIPPED_IN_A_ROW == 0:
        roll_back(state, out, peak, output, workers)


def describe_troubles(counts: RunCounts) -> str:
    """Return what went wrong in a run, counted, in words; empty if nothing did."""
    numbers = {
        "updates skipped for a gradient that was not finite": counts.skipped_updates,
        "times back to an earlier checkpoint": counts.rollbacks,
        "batches split for lack of memory": counts.halved_batches,
        "pairs left out for lack of memory": counts.pairs_left_out,
    }
    return ", ".join(f"{number:,} {description}" for description, number in numbers.items() if number)


def is_good_checkpoint(checkpoint: Path) -> bool:
    """Whether a checkpoint was saved where the settings say so, after an update that changed the weights."""
    # One saved at a signal is only to resume from: an interrupted run must go back to, and average, the same
    # checkpoints as an undisturbed one.
    with suppress(ValueError, OSError):
        return read_manifest(checkpoint).get("good", True)
    return False  # its removal was interrupted


def roll_back(state: TrainState, out: Path, peak: float, output: ProgressOutput, workers: Workers) -> None:
    """Restore weights and optimiser from the last good checkpoint and halve the learning rate.

    Steps, data and clock go on: the run ends when it was to end, and reads no sentence twice. Raises TrainingFailed
    where there is no checkpoint, and when going back did not help a few times.
    """
    counts = state.counts
    trouble = f"{_MOST_SKIPPED_IN_A_ROW} updates in a row had gradients that are not finite"
    checkpoint, saved = find_on_all_workers(
        workers, out, lambda: _choose_trusted_checkpoint(counts, out, trouble, peak, output)
    )
    reset_weights(state, saved.model, checkpoint)
    counts.rollbacks += 1
    counts.fruitless_rollbacks += 1
    output.say(
        f"step {counts.step:,}: {trouble}; continuing with the weights of {checkpoint.name} "
        f"and half the learning rate (from now on {0.5**counts.rollbacks:g} of what the settings say)"
    )


def _choose_trusted_checkpoint(
    counts: RunCounts, out: Path, trouble: str, peak: float, output: ProgressOutput
) -> tuple[Path, Bundle]:
    """Load the checkpoint to go back to, and remove later ones."""
    advice = f"start a new run with a lower optim.peak than {peak:g}"
    good_checkpoints = [checkpoint for checkpoint in list_checkpoints(out) if is_good_checkpoint(checkpoint)]
    if not good_checkpoints:
        raise TrainingFailed(f"{trouble}, and no checkpoint was saved before them: {advice}")
    if counts.fruitless_rollbacks >= _MOST_FRUITLESS_ROLLBACKS:
        raise TrainingFailed(
            f"{trouble}, and going back {_MOST_FRUITLESS_ROLLBACKS} times did not help: {advice}, or look at the data"
        )
    # It has led to the same trouble once already; take the one before.
    if counts.fruitless_rollbacks and len(good_checkpoints) > 1:
        good_checkpoints.pop()
    checkpoint, saved = load_newest_sound(good_checkpoints, output)
    # A resumed run would otherwise start from the weights that were given up.
    for later in list_checkpoints(out):
        if later > checkpoint:
            shutil.rmtree(later)
    return checkpoint, saved


def find_on_all_workers(workers: Workers, out: Path, find: Callable[[], tuple[Path, Bundle]]) -> tuple[Path, Bundle]:
    """Let the first worker find a checkpoint; the others then load the same one.

    Raises TrainingFailed where it is not on a disk that all workers see.
    """
    # Only one may search, for it also removes what is damaged.
    if workers.is_first:
        try:
            checkpoint, saved = find()
        except (ValueError, TrainingFailed):
            # The others are waiting for a step; without this they would wait for half an hour.
            workers.broadcast(-1)
            raise
        workers.broadcast(checkpoint_step(checkpoint))
        return checkpoint, saved
    [step] = workers.broadcast(0)
    if step < 0:
        raise TrainingFailed("worker 0 found no checkpoint to go on from, and says why")
    checkpoint = checkpoint_path(out, int(step))
    try:
        return checkpoint, load_bundle(checkpoint)
    except ValueError as error:
        raise TrainingFailed(f"{error}; all workers need the same directory: put it on a disk they share") from None


def load_newest_sound(checkpoints: list[Path], output: ProgressOutput) -> tuple[Path, Bundle]:
    """Load the newest checkpoint that is not damaged; report and remove newer ones."""
    damaged: list[tuple[Path, ValueError]] = []
    for checkpoint in reversed(checkpoints):
        try:
            saved = load_bundle(checkpoint)
        except ValueError as error:
            damaged.append((checkpoint, error))
            continue
        for damaged_checkpoint, error in damaged:
            output.say(f"{error}. Going back to {checkpoint.name}")
            # Training comes to these steps again, and saves them again.
            shutil.rmtree(damaged_checkpoint)
        return checkpoint, saved
    raise ValueError(
        f"no checkpoint in {checkpoints[0].parent} is sound: {'; '.join(str(error) for _, error in damaged)}"
    )
