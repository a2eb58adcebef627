"""The training loop: from the settings of a run to its model directories, update by update."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pellucid.model.dropout import scale_dropout
from pellucid.store.atomic import WriteFailed, explain_write_error, is_failed_write
from pellucid.training.beginning import RunSetup, open_run
from pellucid.training.checkpoint import TrainState, list_checkpoints
from pellucid.training.config import RunConfig
from pellucid.training.data import CorpusGlance
from pellucid.training.dev_evaluation import Evaluation
from pellucid.training.distributed import TrainingFailed
from pellucid.training.log import RunLog
from pellucid.training.memory import is_out_of_memory
from pellucid.training.process import (
    STOP_SIGNALS,
    catch_signals,
    explain_float32,
    tune_memory,
)
from pellucid.training.recovery import recover
from pellucid.training.saving import (
    evaluate_and_keep_best,
    save_checkpoint,
    save_last_models,
    try_to_write,
)
from pellucid.training.schedule import (
    describe_change,
    dropout_factor,
    is_due,
    is_over,
    is_worthwhile,
    learning_rate,
    run_progress,
)
from pellucid.training.tracking import track_run
from pellucid.training.update import update_within_memory


@dataclass(frozen=True)
class Outcome:
    """End of a run: where its best model is, the dev scores of the averaged model, and why training stopped.

    With several workers, only the first knows these scores.
    """

    out: Path
    best: Path
    evaluation: Evaluation | None
    stop: str  # "done", "patience", or the signal that interrupted it
    first: bool = True  # whether this is the first worker, the one that reports for all


def train_run(
    run: RunConfig,
    out: Path,
    resume: bool = False,
    reasons: Sequence[str] = (),
    *,
    glance: CorpusGlance | None = None,
    explain: bool = False,
) -> Outcome:
    """Train as `run` says, into the run directory `out`, or `resume` there from the newest checkpoint, to the bit.

    Where there is nothing to resume yet, the run begins. What it reads, how large its model is and
    when it will be ready is printed first. The `reasons` for settings that were chosen for the user
    stand in run.toml, and are printed with `explain`. A run that begins takes a `glance` at its
    text.

    Raises ValueError for data that cannot be trained on, for an `out` that already holds a run, for
    a resume with other settings or data than the run began with, and while another process trains
    into `out`; TrainingFailed when the run cannot continue or cannot be saved.
    """
    tune_memory()
    with (
        explain_failures(out),
        open_run(run, out, resume, reasons, glance, explain) as (setup, state),
        open_log(setup, state) as log,
    ):
        counts, workers, stop = state.counts, setup.workers, ""
        with catch_signals() as caught:
            # Score the initial model before any update: best/ is to be better than that.
            if setup.initial_model and counts.dev_score is None:
                evaluate_and_keep_best(setup, state, log)
                try_to_write(setup, lambda: save_checkpoint(setup, state, planned=False))

            while not stop and not is_over(counts, run.train):
                started = time.monotonic()
                before = run_progress(counts, run.train)

                # What changes on the way. Going back to an earlier checkpoint halves the rate.
                rate = learning_rate(counts.step, before, run.optim) * 0.5**counts.rollbacks
                if run.optim.dropout_rise:
                    scale_dropout(state.model, dropout_factor(state.stream.epochs, run.optim))
                enter_stage(setup, state, before)

                # One update: forward, backward, sum over the workers, and the optimizer's step.
                batches = state.prefetcher.next_batches(state.stream, run.train.accumulate, workers)
                result = update_within_memory(
                    state.model,
                    state.optimizer,
                    batches,
                    rate,
                    run.optim,
                    run.train.precision,
                    workers,
                    setup.kernels.kernels,
                )
                counts.step += 1
                counts.target_tokens += result.target_tokens
                if result.is_clean:
                    counts.skipped_in_a_row = 0
                else:
                    recover(state, result, out, run.optim.peak, setup.output, workers)

                # Report. Everybody takes the first worker's time: with train.minutes it decides
                # when the run ends.
                [seconds] = workers.broadcast(time.monotonic() - started)
                counts.seconds += seconds
                now = run_progress(counts, run.train)
                log.report_update(counts, result, seconds, now, state.stream.ledger)

                # Evaluate.
                evaluating = is_due(run.train.evaluate_every, counts, before, now)
                if evaluating and (now >= 1.0 or is_worthwhile(counts, run.train)):
                    evaluate_and_keep_best(setup, state, log)

                # Save. Without train.save_every, checkpoints are due when evaluations are, even one
                # that was not worth its time.
                saving = evaluating
                if run.train.save_every:
                    saving = is_due(run.train.save_every, counts, before, now)
                if saving:
                    try_to_write(setup, lambda: save_checkpoint(setup, state))

                # Stop. Workers may catch different signals; all must leave after the same update.
                stop = agree_on_signal(setup, caught)

        # A checkpoint at a signal is only to resume from: the undisturbed run does not average it.
        save_checkpoint(setup, state, planned=not stop)
        if stop:
            setup.output.say(
                f"{stop}: stopped after step {counts.step:,}; everything is saved. "
                f"{_resume_command(out)}"
            )
            return Outcome(out, out / "best", None, stop, workers.is_first)
        stop = "done" if run_progress(counts, run.train) >= 1.0 else "patience"
        evaluation = save_last_models(setup, state, log)
        return Outcome(out, out / "best", evaluation, stop, workers.is_first)


@contextmanager
def open_log(setup: RunSetup, state: TrainState) -> Iterator[RunLog]:
    """Open the log of a run, and on the first worker the tracker that its reports are sent to, too."""
    is_first, device = setup.workers.is_first, setup.workers.device
    path, tracking = None, nullcontext()
    if is_first:
        path = setup.out / "log.jsonl"
        tracking = track_run(setup.run, setup.out, state.counts.step, setup.output)

    with tracking as tracker:
        log = RunLog(path, state.counts, setup.output, device.type == "cpu", tracker)
        log.counts_updates = setup.run.train.minutes is None
        log.progress_before = run_progress(state.counts, setup.run.train)
        if setup.data.dev_overlap:
            log.beginning = {"dev_overlap": setup.data.dev_overlap}
        for note in (explain_float32(setup.run.train.precision, device), setup.kernels.note):
            if note:
                setup.output.say(note)
        yield log


def enter_stage(setup: RunSetup, state: TrainState, progress: float) -> None:
    """Let the stream show what it is to show when this share of the run is over, and say what changes."""
    before, stage = state.stream.stage, setup.stages.stage_at(progress)
    if stage == before:
        return

    state.stream.enter(stage)
    if state.counts.step:
        names = [corpus.display_name for corpus in setup.run.data.corpora]
        change = describe_change(before, stage, names)
        setup.output.say(
            f"step {state.counts.step:,}, {progress:.0%} of the run: from here on {change}"
        )


def agree_on_signal(setup: RunSetup, caught: Sequence[str]) -> str:
    """Return a signal that some worker has caught, the same on all workers; empty if none has."""
    signals = ("", *STOP_SIGNALS)
    number = signals.index(caught[0]) if caught else 0
    return signals[setup.workers.all_reduce_max(number)]


@contextmanager
def explain_failures(out: Path) -> Iterator[None]:
    """Turn errors of writing and of memory into TrainingFailed, with advice on how to resume the run."""
    try:
        yield
    except OSError as error:
        # A file that cannot be read is a fault of its own; only failed writes get advice.
        if not is_failed_write(error):
            raise
        problem = str(error)
        if not isinstance(error, WriteFailed):
            explanation = explain_write_error(error)
            problem = f"{error.filename or out}: {explanation}; what stood there is as it was"
        raise TrainingFailed(f"{problem}. {_resume_advice(out)}") from None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingFailed(f"out of memory: {error}. {_resume_advice(out)}") from error


def _resume_command(out: Path) -> str:
    """Return the command that resumes the run, as a sentence."""
    return f"Resume with: pellucid train {out / 'run.toml'} --out {out} --resume"


def _resume_advice(out: Path) -> str:
    """Return what to type after a failure, and how much of the run is saved by then."""
    if checkpoints := list_checkpoints(out):
        return f"The newest checkpoint is {checkpoints[-1].name}. {_resume_command(out)}"
    advice = "No checkpoint was saved yet"
    if (out / "run.toml").is_file():
        advice += f": the run will start from the beginning. {_resume_command(out)}"
    return advice
