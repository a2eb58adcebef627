"""Recovery from an update that went wrong.

What went wrong is reported and counted. After too many gradients in a row that are not finite, the
run goes back to an earlier checkpoint.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
from pellucid.training.distributed import ALONE, TrainingFailed, Workers
from pellucid.training.log import PlainOutput, ProgressOutput
from pellucid.training.update import UpdateResult

# Skipped updates in a row after which the weights are considered spoiled.
_MOST_SKIPPED_IN_A_ROW = 20
# Most times that a run goes back without a good checkpoint in between.
_MOST_FRUITLESS_ROLLBACKS = 3


def recover(
    state: TrainState,
    result: UpdateResult,
    out: Path,
    peak: float,
    output: ProgressOutput,
    workers: Workers = ALONE,
) -> None:
    """Count and report what went wrong in an update; go back after too many skipped ones."""
    counts = state.counts
    # Reported once: it may recur in every epoch.
    if result.halved and not counts.halved_batches:
        output.say(
            f"step {counts.step:,}: a batch did not fit in memory; such batches are split in two, "
            "which costs time and changes nothing else (said once; a smaller train.batch_tokens "
            "with more train.accumulate avoids it)"
        )
    # On other workers `output` discards everything, and only they know about their own pairs.
    own_output = output if workers.is_first else PlainOutput(f"worker {workers.rank}: ")
    for pair in result.left_out:
        own_output.say(
            f"step {counts.step:,}: a pair of {pair.source.shape[1]} source and "
            f"{pair.target_out.shape[1]} target pieces did not fit in memory even alone and was "
            "left out (data.max_pieces keeps longer ones out)"
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
    return ", ".join(f"{number:,} {trouble}" for trouble, number in numbers.items() if number)


def is_good_checkpoint(checkpoint: Path) -> bool:
    """Whether a checkpoint was saved as the settings say, after an update that changed the weights."""
    # One saved at a signal is only to resume from: an interrupted run must go back to, and average,
    # the same checkpoints as an undisturbed one.
    with suppress(ValueError, OSError):
        return read_manifest(checkpoint).get("good", True)
    return False  # its removal was interrupted


def roll_back(
    state: TrainState, out: Path, peak: float, output: ProgressOutput, workers: Workers
) -> None:
    """Restore weights and optimiser from the last good checkpoint and halve the learning rate.

    Steps, data and clock go on: the run ends when it was to end, and reads no sentence twice.
    Raises TrainingFailed where there is no checkpoint, and when going back did not help a few
    times.
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
        f"step {counts.step:,}: {trouble}; continuing with the weights of {checkpoint.name} and "
        f"half the learning rate (from now on {0.5**counts.rollbacks:g} of what the settings say)"
    )


def _choose_trusted_checkpoint(
    counts: RunCounts, out: Path, trouble: str, peak: float, output: ProgressOutput
) -> tuple[Path, Bundle]:
    """Load the checkpoint to go back to, and remove later ones."""
    advice = f"start a new run with a lower optim.peak than {peak:g}"
    good_checkpoints = list(filter(is_good_checkpoint, list_checkpoints(out)))
    if not good_checkpoints:
        raise TrainingFailed(f"{trouble}, and no checkpoint was saved before them: {advice}")
    if counts.fruitless_rollbacks >= _MOST_FRUITLESS_ROLLBACKS:
        raise TrainingFailed(
            f"{trouble}, and going back {_MOST_FRUITLESS_ROLLBACKS} times did not help: {advice}, "
            "or look at the data"
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


def find_on_all_workers(
    workers: Workers, out: Path, find: Callable[[], tuple[Path, Bundle]]
) -> tuple[Path, Bundle]:
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
        raise TrainingFailed(
            f"{error}; all workers need the same directory: put it on a disk they share"
        ) from None


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

    problems = "; ".join(str(error) for _, error in damaged)
    raise ValueError(f"no checkpoint in {checkpoints[0].parent} is sound: {problems}")
