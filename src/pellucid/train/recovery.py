"""What is done about an update that went wrong: said, counted, and, if it goes on, gone back from."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pellucid import bundle
from pellucid.atomic import read_manifest
from pellucid.train.distributed import ALONE, Workers
from pellucid.train.failures import TrainingFailed
from pellucid.train.log import PlainOutput
from pellucid.train.state import RunCounts, TrainState, checkpoint_path, list_checkpoints, reset_weights
from pellucid.train.update import UpdateResult

MOST_SKIPPED_IN_A_ROW = 20
"""Skipped updates after which the weights are taken for spoiled."""

MOST_FRUITLESS_ROLLBACKS = 3
"""How often a run goes back without a good checkpoint in between."""


class Say(Protocol):
    """Where messages go."""

    def say(self, message: str) -> None: ...


def recover(state: TrainState, done: UpdateResult, out: Path, peak: float, say: Say, workers: Workers = ALONE) -> None:
    """Count and say what went wrong in an update; where the gradient is no number too often, go back."""
    counts = state.counts
    if done.halved and not counts.halved_batches:
        say.say(
            f"step {counts.step:,}: a batch did not fit in memory; such batches are split in two, which costs time and "
            "changes nothing else (said once; a smaller train.batch_tokens with more train.accumulate avoids it)"
        )
    for pair in done.left_out:
        (say if workers.is_first else PlainOutput(f"worker {workers.rank}: ")).say(
            f"step {counts.step:,}: a pair of {pair.source.shape[1]} source and {pair.target_out.shape[1]} target "
            "pieces did not fit in memory even alone and was left out (data.max_pieces keeps longer ones out)"
        )
    counts.halved_batches += done.halved
    counts.pairs_left_out += done.pairs_left_out
    counts.skipped_updates += done.skipped
    counts.skipped_in_a_row = counts.skipped_in_a_row + 1 if done.skipped else 0
    if done.skipped and counts.skipped_in_a_row % MOST_SKIPPED_IN_A_ROW == 0:
        roll_back(state, out, peak, say, workers)


def describe_troubles(counts: RunCounts) -> str:
    """What went wrong in a run, counted; empty if nothing did."""
    happened = {
        "updates skipped for a gradient that was no number": counts.skipped_updates,
        "times back to an earlier checkpoint": counts.rollbacks,
        "batches split for lack of memory": counts.halved_batches,
        "pairs left out for lack of memory": counts.pairs_left_out,
    }
    return ", ".join(f"{number:,} {what}" for what, number in happened.items() if number)


def rate_factor(rollbacks: int) -> float:
    """What the learning rate is multiplied with: half of it after each time a run went back."""
    return 0.5**rollbacks


def is_good_checkpoint(place: Path) -> bool:
    """Whether a checkpoint was saved where the settings say so, after an update that changed the weights.

    One that a signal asked for is there to go on from, and for nothing else: so an interrupted run goes back to, and
    averages, what an undisturbed one does.
    """
    with suppress(ValueError, OSError):
        return read_manifest(place).get("good", True)
    return False  # its removal was interrupted


def roll_back(state: TrainState, out: Path, peak: float, say: Say, workers: Workers) -> None:
    """Take weights and optimiser from the last good checkpoint and halve the learning rate.

    Steps, data and clock go on: the run ends when it was to end, and reads no sentence twice. If no good
    checkpoint was saved since it went back last, that one is not trusted either, and the one before it taken. Raises
    TrainingFailed where there is none, and when that did not help a few times.
    """
    counts = state.counts
    trouble = f"{MOST_SKIPPED_IN_A_ROW} updates in a row had gradients that are no numbers"
    place, found = find_on_all_workers(workers, out, lambda: choose_trusted_checkpoint(counts, out, trouble, peak, say))
    reset_weights(state, found.model, place)
    counts.rollbacks += 1
    counts.fruitless_rollbacks += 1
    factor = rate_factor(counts.rollbacks)
    say.say(
        f"step {counts.step:,}: {trouble}; going on with the weights of {place.name} "
        f"and half the learning rate (from now on {factor:g} of what the settings say)"
    )


def choose_trusted_checkpoint(
    counts: RunCounts, out: Path, trouble: str, peak: float, say: Say
) -> tuple[Path, bundle.Bundle]:
    """The checkpoint to go back to; later ones are removed."""
    lower = f"start a new run with a lower optim.peak than {peak:g}"
    there = [place for place in list_checkpoints(out) if is_good_checkpoint(place)]
    if not there:
        raise TrainingFailed(f"{trouble}, and no checkpoint was saved before them: {lower}")
    if counts.fruitless_rollbacks >= MOST_FRUITLESS_ROLLBACKS:
        raise TrainingFailed(
            f"{trouble}, and going back {MOST_FRUITLESS_ROLLBACKS} times did not help: {lower}, or look at the data"
        )
    if counts.fruitless_rollbacks and len(there) > 1:
        there.pop()
    place, found = load_newest_sound(there, say)
    for other in list_checkpoints(out):
        if other > place:
            shutil.rmtree(other)
    return place, found


def find_on_all_workers(
    workers: Workers, out: Path, look: Callable[[], tuple[Path, bundle.Bundle]]
) -> tuple[Path, bundle.Bundle]:
    """What the first worker finds, which may remove what is damaged; the others then load the same checkpoint.

    Raises TrainingFailed where that one is not on a disk that all of them see.
    """
    if workers.is_first:
        try:
            place, found = look()
        except (ValueError, TrainingFailed):
            workers.broadcast(-1)
            raise
        workers.broadcast(int(place.name.removeprefix("step-")))
        return place, found
    [step] = workers.broadcast(0)
    if step < 0:
        raise TrainingFailed("worker 0 found no checkpoint to go on from, and says why")
    place = checkpoint_path(out, int(step))
    try:
        return place, bundle.load_bundle(place)
    except ValueError as error:
        raise TrainingFailed(f"{error}; all workers need the same directory: put it on a disk they share") from None


def load_newest_sound(places: list[Path], say: Say) -> tuple[Path, bundle.Bundle]:
    """The newest of some checkpoints that loads; damaged ones after it are said and removed, for they come again."""
    damaged: list[tuple[Path, ValueError]] = []
    for place in reversed(places):
        try:
            found = bundle.load_bundle(place)
        except ValueError as error:
            damaged.append((place, error))
            continue
        for other, error in damaged:
            say.say(f"{error}. Going back to {place.name}")
            shutil.rmtree(other)
        return place, found
    raise ValueError(f"no checkpoint in {places[0].parent} is sound: {'; '.join(str(error) for _, error in damaged)}")
