"""The training loop: from a run's settings to its model directories."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pellucid import bundle
from pellucid.atomic import WriteFailed, explain_write_error, is_failed_write, read_manifest
from pellucid.config import to_toml
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import Transformer
from pellucid.model.dropout import scale_dropout
from pellucid.train.config import RunConfig
from pellucid.train.data import read_data
from pellucid.train.dev_set import DevSet, Evaluation, evaluate_model
from pellucid.train.distributed import ALONE, Workers, join_workers
from pellucid.train.failures import TrainingFailed, explain_failed_write, is_out_of_memory
from pellucid.train.fsdp import is_sharded, place_model
from pellucid.train.initial_model import ancestry_notes, open_initial_model
from pellucid.train.lock import hold_run_lock
from pellucid.train.log import NoOutput, ProgressOutput, RunLog, choose_output
from pellucid.train.optim import dropout_factor, learning_rate, make_adam
from pellucid.train.pairs import CorpusAccount
from pellucid.train.precision import explain_float32
from pellucid.train.process import catch_signals, tune_memory
from pellucid.train.progress import is_due, is_worthwhile, run_progress
from pellucid.train.recovery import (
    describe_troubles,
    find_on_all_workers,
    is_good_checkpoint,
    load_newest_sound,
    rate_factor,
    recover,
)
from pellucid.train.resume_checks import TEXTS_FILE, record_texts, refuse_other_settings, refuse_other_text
from pellucid.train.state import (
    TrainState,
    average_weights,
    checkpoint_path,
    gather_state,
    list_checkpoints,
    prune_checkpoints,
    restore_state,
    save_state,
    write_text_whole,
)
from pellucid.train.update import compile_layers, update_weights

RUN_FILES = ("run.toml", TEXTS_FILE, "log.jsonl", "checkpoints", "last", "best", "average")
"""What a run leaves in its directory."""


@dataclass(frozen=True)
class RunSetup:
    """What a run holds on to and never changes."""

    run: RunConfig
    out: Path
    tokenizer: Tokenizer
    dev: DevSet
    fingerprint: str
    output: ProgressOutput
    workers: Workers
    accounts: tuple[CorpusAccount, ...]
    start: dict[str, Any] | None = None
    """What is known of the model that the run started from, if it did from one."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: where its best model is, that model's dev scores, and why training stopped.

    Where several workers trained, only the first knows the scores of the end.
    """

    out: Path
    best: Path
    evaluation: Evaluation | None
    stop: str
    """ "done", "patience", or the signal that interrupted it."""
    first: bool = True
    """Whether this is the first worker, who speaks for all."""


def train_run(run: RunConfig, out: Path, resume: bool = False, reasons: Sequence[str] = ()) -> Outcome:
    """Train as `run` says, into the run directory `out`; `resume` goes on from its newest checkpoint, to the bit.

    `reasons` for settings that were chosen for the user are said first.

    Raises ValueError for data that cannot be trained on, for an `out` that already holds a run, and for a resume with
    other settings or other data than the run began with, or while another process trains into `out`; TrainingFailed
    when the run cannot go on or cannot be saved.
    """
    tune_memory()
    # Of several workers the first writes. It holds the lock before it meets the others, or they would wait for it.
    alone_here = hold_run_lock(out) if os.environ.get("RANK", "0") == "0" else nullcontext()
    try:
        with alone_here, join_workers() as workers:
            say = choose_output() if workers.is_first else NoOutput()
            try:
                for each in reasons:
                    say.say(each)
                setup, state = (resume_run if resume else begin_run)(run, out, say, workers)
                return run_updates(setup, state)
            finally:
                say.close()
    except OSError as error:
        if not is_failed_write(error):
            raise
        what = str(error)
        if not isinstance(error, WriteFailed):
            what = f"{error.filename or out}: {explain_write_error(error)}; what stood there is as it was"
        raise TrainingFailed(f"{what}. {resume_advice(out)}") from None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingFailed(f"out of memory: {error}. {resume_advice(out)}") from error


def run_updates(setup: RunSetup, state: TrainState) -> Outcome:
    """Update until the run is over or a signal asks to stop; then leave everything saved."""
    out, say, workers = setup.out, setup.output, setup.workers
    log = RunLog(out / "log.jsonl" if workers.is_first else None, state.counts, say)
    signals = ("", "SIGINT", "SIGTERM")
    if said := explain_float32(setup.run.train.precision, workers.device):
        say.say(said)
    if setup.run.train.compile:
        compile_layers(state.model)
    with catch_signals() as asked:
        stop = ""
        if setup.start and state.counts.dev_score is None:
            evaluate_and_keep_best(setup, state, log)  # what the updates have to be better than
            try_to_write(setup, lambda: save_checkpoint(setup, state, planned=False))
        while not stop and not is_over(state, setup.run):
            make_one_update(setup, state, log)
            stop = signals[workers.all_reduce_max(signals.index(asked[0]) if asked else 0)]
    save_checkpoint(setup, state, planned=not stop)
    if stop:
        say.say(f"{stop}: stopped after step {state.counts.step:,}, everything saved. {resume_command(out)}")
        return Outcome(out, out / "best", None, stop, workers.is_first)
    return finish_run(setup, state, log)


def resume_command(out: Path) -> str:
    """What to type."""
    return f"Go on with: pellucid train {out / 'run.toml'} --out {out} --resume"


def resume_advice(out: Path) -> str:
    """What to type after a failure, and how much of the run is there then."""
    if saved := list_checkpoints(out):
        return f"The newest checkpoint is {saved[-1].name}. {resume_command(out)}"
    begun = (out / "run.toml").is_file()
    return "No checkpoint was saved yet" + (f": the run begins again. {resume_command(out)}" if begun else "")


def make_one_update(setup: RunSetup, state: TrainState, log: RunLog) -> None:
    """Change the weights once; then report, evaluate and save if it is time."""
    run, counts = setup.run, state.counts
    started, before = time.monotonic(), run_progress(counts, run.train)
    rate = learning_rate(counts.step, before, run.optim) * rate_factor(counts.rollbacks)
    if run.optim.dropout_rise:
        scale_dropout(state.model, dropout_factor(state.stream.epochs, run.optim))
    parts = state.next_batches(run.train.accumulate, setup.workers)
    done = update_weights(state.model, state.optimizer, parts, rate, run.optim, run.train.precision, setup.workers)
    counts.step += 1
    counts.target_tokens += done.target_tokens
    recover(state, done, setup.out, run.optim.peak, setup.output, setup.workers)
    [seconds] = setup.workers.broadcast(time.monotonic() - started)
    counts.seconds += seconds
    now = run_progress(counts, run.train)
    log.report_update(counts, done, seconds, now, state.stream.ledger)
    evaluating = is_due(run.train.evaluate_every, counts, before, now)
    if evaluating and (now >= 1.0 or is_worthwhile(counts, run.train)):
        evaluate_and_keep_best(setup, state, log)
    if is_due(run.train.save_every, counts, before, now) if run.train.save_every else evaluating:
        try_to_write(setup, lambda: save_checkpoint(setup, state))


def try_to_write(setup: RunSetup, write: Callable[[], None]) -> bool:
    """Whether something was written; if not, that is said and training goes on."""
    try:
        write()
    except WriteFailed as error:
        setup.output.say(
            f"{error}. What was saved before is as it was; training goes on, and the next save tries again"
        )
        return False
    return True


def is_over(state: TrainState, run: RunConfig) -> bool:
    """Whether the run is at its end, or has lost patience."""
    patience = run.train.patience
    return run_progress(state.counts, run.train) >= 1.0 or (
        patience is not None and state.counts.stale_evaluations >= patience
    )


def evaluate_and_keep_best(setup: RunSetup, state: TrainState, log: RunLog) -> None:
    """Evaluate; a model better than any before becomes `best/`."""
    started, counts, first = time.monotonic(), state.counts, setup.workers.is_first
    state = gather_state(state, setup.workers)
    evaluation = evaluate_model(state.model, setup.tokenizer, setup.dev, setup.run) if first else None
    counts.stale_evaluations += 1
    seconds, score, better = time.monotonic() - started, evaluation.score if evaluation else 0.0, False
    if evaluation is not None and score > counts.best_score:
        better = try_to_write(setup, lambda: save_model(setup, state, "best", evaluation))
        counts.stale_evaluations = 0
    seconds, score, better, stale = setup.workers.broadcast(seconds, score, better, counts.stale_evaluations)
    counts.seconds += seconds
    counts.evaluation_seconds += seconds
    counts.evaluations += 1
    counts.dev_score, counts.stale_evaluations = score, int(stale)
    counts.best_score = score if better else counts.best_score
    if evaluation is not None:
        log.report_evaluation(counts, evaluation)


def begin_run(
    run: RunConfig, out: Path, say: ProgressOutput, workers: Workers = ALONE, again: bool = False
) -> tuple[RunSetup, TrainState]:
    """Read the data, learn the vocabulary, make a new model; all randomness follows from the seed.

    `again`: in place of a run that was killed before its first checkpoint.
    """
    there = [name for name in RUN_FILES if (out / name).exists()]
    if there and not again:
        raise ValueError(
            f"{out} already holds a run ({', '.join(there)}); choose another --out, or go on with that run: --resume"
        )
    start = open_initial_model(run)
    workers.require_same("model to start from", start.sha256 if start else "")
    data = read_data(run, start.tokenizer if start else None)
    workers.require_same("training data", data.fingerprint)
    workers.require_same("vocabulary", "\n".join((*data.tokenizer.source_names, *data.tokenizer.target_names)))
    torch.manual_seed(run.seed)
    model = Transformer(run.model_config(data.tokenizer))
    model = place_model((start.fill(model) if start else model).train(), workers, run.train.shard_model)
    state = TrainState(model, make_adam(model, run.optim), Stream(data.encoded, run.train.batch_tokens, run.seed))
    dev, about = DevSet.from_pairs(data.dev, data.tokenizer, run), start.about if start else None
    setup = RunSetup(run, out, data.tokenizer, dev, data.fingerprint, say, workers, data.accounts, about)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = (
        f"{sum(each.read for each in data.accounts):,} pairs read, {len(data.encoded):,} of them to train on; "
        f"{data.tokenizer.target_vocabulary:,} pieces, {parameters / 1e6:.1f} M parameters, "
        f"{state.stream.batches_per_epoch:,} batches an epoch"
    )
    origin = [f"starting from {start.about['from']}: its weights, its tokenizer, a new optimiser"] if start else []
    for note in (*origin, *data.notes, *setup.dev.notes, size):
        say.say(note)
    if workers.world_size > 1:
        parts = ", and each keeps its part of the model" if is_sharded(model) else ""
        say.say(f"{workers.world_size} workers share the pairs of each update{parts}")
    elif run.train.shard_model:
        say.say("train.shard_model shares the model among workers, and there is one, so it keeps all of it")
    if workers.is_first:
        out.mkdir(parents=True, exist_ok=True)
        if again:
            (out / "log.jsonl").unlink(missing_ok=True)
        write_text_whole(out / "run.toml", to_toml(run))  # first: with it, a run that is killed here begins again
        record_texts(run, data, out)
    return setup, state


def resume_run(run: RunConfig, out: Path, say: ProgressOutput, workers: Workers = ALONE) -> tuple[RunSetup, TrainState]:
    """What `begin_run` made, as it was when the newest checkpoint was saved."""
    if (out / "run.toml").is_file():
        refuse_other_settings(run, out)
        if not list_checkpoints(out):
            say.say(f"{out} has no checkpoint yet: its run begins again")
            return begin_run(run, out, say, workers, again=True)
    if not list_checkpoints(out):
        raise ValueError(f"{out} has no checkpoint to resume from; start without --resume")
    place, found = find_on_all_workers(workers, out, lambda: load_newest_sound(list_checkpoints(out), say))
    data = read_data(run, found.tokenizer)
    refuse_other_text(run, data, out, place, found.manifest.get("data"))
    model = place_model(found.model.train(), workers, run.train.shard_model)
    state = TrainState(model, make_adam(model, run.optim), Stream(data.encoded, run.train.batch_tokens, run.seed))
    restore_state(state, place)
    say.say(f"going on after step {state.counts.step:,} of {place}")
    if workers.is_first:
        write_text_whole(out / "run.toml", to_toml(run))  # where things are now, and how long it is to train
    dev = DevSet.from_pairs(data.dev, found.tokenizer, run)
    start = found.manifest.get("start")
    return RunSetup(run, out, found.tokenizer, dev, data.fingerprint, say, workers, data.accounts, start), state


def finish_run(setup: RunSetup, state: TrainState, log: RunLog) -> Outcome:
    """Write `last/` and `average/`; if the averaged model scores best on dev, it becomes `best/`."""
    run, out, counts = setup.run, setup.out, state.counts
    stop = "done" if run_progress(counts, run.train) >= 1.0 else "patience"
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        setup.workers.barrier()
        return Outcome(out, out / "best", None, stop, first=False)
    last = log.evaluations.get(counts.step) or evaluate_model(state.model, setup.tokenizer, setup.dev, run)
    save_model(setup, state, "last", last)
    average_weights(checkpoints_to_average(setup) or list_checkpoints(out)[-1:], into=state.model)
    averaged = evaluate_model(state.model, setup.tokenizer, setup.dev, run)
    save_model(setup, state, "average", averaged)
    if averaged.score >= counts.best_score:
        save_model(setup, state, "best", averaged)
    elif setup.start and read_manifest(out / "best").get("step") == 0:
        setup.output.say("no evaluation was better than that of the model this run started from: best/ is that model")
    log.report_average(counts, averaged)
    log.require_written()
    setup.output.say(f"seen in training: {state.stream.describe_ledger}")
    if wrong := describe_troubles(counts):
        setup.output.say(f"what went wrong on the way: {wrong}")
    setup.workers.barrier()
    return Outcome(out, out / "best", averaged, stop)


def save_model(setup: RunSetup, state: TrainState, name: str, evaluation: Evaluation) -> None:
    """One of the model directories of the run."""
    longest = int(state.stream.encoded.sources.lengths.max())  # what translation splits longer lines by
    about = {"data": setup.fingerprint, "pairs": [each.row() for each in setup.accounts], "step": state.counts.step}
    about |= ancestry_notes(setup.start, longest)
    with explain_failed_write(setup.out / name, size=4 * state.parameters):
        bundle.save_bundle(setup.out / name, state.model, setup.tokenizer, **about, dev=evaluation.row())


def save_checkpoint(setup: RunSetup, state: TrainState, planned: bool = True) -> None:
    """A checkpoint of this step, unless it is there; older ones that are no longer needed go."""
    counts = state.counts
    place, sound = checkpoint_path(setup.out, counts.step), planned and not counts.skipped_in_a_row
    if sound:
        counts.fruitless_rollbacks = 0
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        return
    with explain_failed_write(place, size=12 * state.parameters):  # weights, and two numbers that Adam keeps of each
        if not place.exists():
            about = {"data": setup.fingerprint, "step": counts.step, "score": counts.dev_score, "good": sound}
            about |= {"start": setup.start} if setup.start else {}
            save_state(state, setup.tokenizer, place, **about)
        prune_checkpoints(setup.out, keep=set(checkpoints_to_average(setup)))


def checkpoints_to_average(setup: RunSetup) -> list[Path]:
    """The checkpoints that the averaged model is made of: the newest good ones, or those with the best dev scores."""
    saved = [place for place in list_checkpoints(setup.out) if is_good_checkpoint(place)]
    if setup.run.train.average == "best":
        saved.sort(key=lambda place: read_manifest(place).get("score") or float("-inf"))
    return saved[-setup.run.train.keep :]
