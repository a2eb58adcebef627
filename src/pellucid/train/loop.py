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
from pellucid.atomic import NotWritten, is_failed_write, manifest_of, reason
from pellucid.config import to_toml
from pellucid.data.stream import Stream
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import Transformer
from pellucid.model.dropout import drop_only
from pellucid.train.config import RunConfig
from pellucid.train.data import read_data
from pellucid.train.dev_set import Dev, Evaluation, evaluate
from pellucid.train.distributed import ALONE, Workers, joined
from pellucid.train.failures import TrainingFailed, out_of_memory, written
from pellucid.train.fsdp import is_sharded, placed
from pellucid.train.initial_model import opened, since
from pellucid.train.lock import locked
from pellucid.train.log import Log, Silent, Voice, voice
from pellucid.train.optim import adam, dropout_part, learning_rate
from pellucid.train.pairs import Account
from pellucid.train.precision import replaced
from pellucid.train.process import interruptible, spare_memory
from pellucid.train.progress import due, progress, worthwhile
from pellucid.train.recovery import account, found_by_all, good, newest_sound, rate_factor, recover
from pellucid.train.resume_checks import TEXTS, note_text, refuse_other_settings, refuse_other_text
from pellucid.train.state import State, average, checkpoint, checkpoints, gathered, prune, replace_text, restore, save
from pellucid.train.update import compiled, update

WRITES = ("run.toml", TEXTS, "log.jsonl", "checkpoints", "last", "best", "average")
"""What a run leaves in its directory."""


@dataclass(frozen=True)
class Setup:
    """What a run holds on to and never changes."""

    run: RunConfig
    out: Path
    tokenizer: Tokenizer
    dev: Dev
    fingerprint: str
    say: Voice
    workers: Workers
    accounts: tuple[Account, ...]
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


def train(run: RunConfig, out: Path, resume: bool = False, reasons: Sequence[str] = ()) -> Outcome:
    """Train as `run` says, into the run directory `out`; `resume` goes on from its newest checkpoint, to the bit.

    `reasons` for settings that were chosen for the user are said first.

    Raises ValueError for data that cannot be trained on, for an `out` that already holds a run, and for a resume with
    other settings or other data than the run began with, or while another process trains into `out`; TrainingFailed
    when the run cannot go on or cannot be saved.
    """
    spare_memory()
    # Of several workers the first writes. It holds the lock before it meets the others, or they would wait for it.
    alone_here = locked(out) if os.environ.get("RANK", "0") == "0" else nullcontext()
    try:
        with alone_here, joined() as workers:
            say = voice() if workers.first else Silent()
            try:
                for each in reasons:
                    say.say(each)
                setup, state = (go_on if resume else begin)(run, out, say, workers)
                return carry_out(setup, state)
            finally:
                say.close()
    except OSError as error:
        if not is_failed_write(error):
            raise
        what = str(error)
        if not isinstance(error, NotWritten):
            what = f"{error.filename or out}: {reason(error)}; what stood there is as it was"
        raise TrainingFailed(f"{what}. {from_where(out)}") from None
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingFailed(f"out of memory: {error}. {from_where(out)}") from error


def carry_out(setup: Setup, state: State) -> Outcome:
    """Update until the run is over or a signal asks to stop; then leave everything saved."""
    out, say, workers = setup.out, setup.say, setup.workers
    log = Log(out / "log.jsonl" if workers.first else None, state.counts, say)
    signals = ("", "SIGINT", "SIGTERM")
    if said := replaced(setup.run.train.precision, workers.device):
        say.say(said)
    if setup.run.train.compile:
        compiled(state.model)
    with interruptible() as asked:
        stop = ""
        if setup.start and state.counts.dev_score is None:
            judge(setup, state, log)  # what the updates have to be better than
            attempt(setup, lambda: save_checkpoint(setup, state, planned=False))
        while not stop and not over(state, setup.run):
            one_update(setup, state, log)
            stop = signals[workers.most(signals.index(asked[0]) if asked else 0)]
    save_checkpoint(setup, state, planned=not stop)
    if stop:
        say.say(f"{stop}: stopped after step {state.counts.step:,}, everything saved. {how_to_go_on(out)}")
        return Outcome(out, out / "best", None, stop, workers.first)
    return finish(setup, state, log)


def how_to_go_on(out: Path) -> str:
    """What to type."""
    return f"Go on with: pellucid train {out / 'run.toml'} --out {out} --resume"


def from_where(out: Path) -> str:
    """What to type after a failure, and how much of the run is there then."""
    if saved := checkpoints(out):
        return f"The newest checkpoint is {saved[-1].name}. {how_to_go_on(out)}"
    begun = (out / "run.toml").is_file()
    return "No checkpoint was saved yet" + (f": the run begins again. {how_to_go_on(out)}" if begun else "")


def one_update(setup: Setup, state: State, log: Log) -> None:
    """Change the weights once; then report, evaluate and save if it is time."""
    run, counts = setup.run, state.counts
    started, before = time.monotonic(), progress(counts, run.train)
    rate = learning_rate(counts.step, before, run.optim) * rate_factor(counts.rollbacks)
    if run.optim.dropout_rise:
        drop_only(state.model, dropout_part(state.stream.epochs, run.optim))
    parts = state.next_parts(run.train.accumulate, setup.workers)
    done = update(state.model, state.optimizer, parts, rate, run.optim, run.train.precision, setup.workers)
    counts.step += 1
    counts.target_tokens += done.target_tokens
    recover(state, done, setup.out, run.optim.peak, setup.say, setup.workers)
    [seconds] = setup.workers.told(time.monotonic() - started)
    counts.seconds += seconds
    now = progress(counts, run.train)
    log.update(counts, done, seconds, now, state.stream.ledger)
    evaluating = due(run.train.evaluate_every, counts, before, now)
    if evaluating and (now >= 1.0 or worthwhile(counts, run.train)):
        judge(setup, state, log)
    if due(run.train.save_every, counts, before, now) if run.train.save_every else evaluating:
        attempt(setup, lambda: save_checkpoint(setup, state))


def attempt(setup: Setup, write: Callable[[], None]) -> bool:
    """Whether something was written; if not, that is said and training goes on."""
    try:
        write()
    except NotWritten as error:
        setup.say.say(f"{error}. What was saved before is as it was; training goes on, and the next save tries again")
        return False
    return True


def over(state: State, run: RunConfig) -> bool:
    """Whether the run is at its end, or has lost patience."""
    patience = run.train.patience
    return progress(state.counts, run.train) >= 1.0 or (
        patience is not None and state.counts.stale_evaluations >= patience
    )


def judge(setup: Setup, state: State, log: Log) -> None:
    """Evaluate; a model better than any before becomes `best/`."""
    started, counts, first = time.monotonic(), state.counts, setup.workers.first
    state = gathered(state, setup.workers)
    evaluation = evaluate(state.model, setup.tokenizer, setup.dev, setup.run) if first else None
    counts.stale_evaluations += 1
    seconds, score, better = time.monotonic() - started, evaluation.score if evaluation else 0.0, False
    if evaluation is not None and score > counts.best_score:
        better = attempt(setup, lambda: save_model(setup, state, "best", evaluation))
        counts.stale_evaluations = 0
    seconds, score, better, stale = setup.workers.told(seconds, score, better, counts.stale_evaluations)
    counts.seconds += seconds
    counts.evaluation_seconds += seconds
    counts.evaluations += 1
    counts.dev_score, counts.stale_evaluations = score, int(stale)
    counts.best_score = score if better else counts.best_score
    if evaluation is not None:
        log.evaluation(counts, evaluation)


def begin(run: RunConfig, out: Path, say: Voice, workers: Workers = ALONE, again: bool = False) -> tuple[Setup, State]:
    """Read the data, learn the vocabulary, make a new model; all randomness follows from the seed.

    `again`: in place of a run that was killed before its first checkpoint.
    """
    there = [name for name in WRITES if (out / name).exists()]
    if there and not again:
        raise ValueError(
            f"{out} already holds a run ({', '.join(there)}); choose another --out, or go on with that run: --resume"
        )
    start = opened(run)
    workers.require_same("model to start from", start.sha256 if start else "")
    data = read_data(run, start.tokenizer if start else None)
    workers.require_same("training data", data.fingerprint)
    workers.require_same("vocabulary", "\n".join((*data.tokenizer.source_names, *data.tokenizer.target_names)))
    torch.manual_seed(run.seed)
    model = Transformer(run.model_config(data.tokenizer))
    model = placed((start.fill(model) if start else model).train(), workers, run.train.shard_model)
    state = State(model, adam(model, run.optim), Stream(data.encoded, run.train.batch_tokens, run.seed))
    dev, about = Dev.of(data.dev, data.tokenizer, run), start.about if start else None
    setup = Setup(run, out, data.tokenizer, dev, data.fingerprint, say, workers, data.accounts, about)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = (
        f"{sum(each.read for each in data.accounts):,} pairs read, {len(data.encoded):,} of them to train on; "
        f"{data.tokenizer.target_vocabulary:,} pieces, {parameters / 1e6:.1f} M parameters, "
        f"{state.stream.batches_per_epoch:,} batches an epoch"
    )
    origin = [f"starting from {start.about['from']}: its weights, its tokenizer, a new optimiser"] if start else []
    for note in (*origin, *data.notes, *setup.dev.notes, size):
        say.say(note)
    if workers.world > 1:
        parts = ", and each keeps its part of the model" if is_sharded(model) else ""
        say.say(f"{workers.world} workers share the pairs of each update{parts}")
    elif run.train.shard_model:
        say.say("train.shard_model shares the model among workers, and there is one, so it keeps all of it")
    if workers.first:
        out.mkdir(parents=True, exist_ok=True)
        if again:
            (out / "log.jsonl").unlink(missing_ok=True)
        replace_text(out / "run.toml", to_toml(run))  # first: with it, a run that is killed here begins again
        note_text(run, data, out)
    return setup, state


def go_on(run: RunConfig, out: Path, say: Voice, workers: Workers = ALONE) -> tuple[Setup, State]:
    """What `begin` made, as it was when the newest checkpoint was saved."""
    if (out / "run.toml").is_file():
        refuse_other_settings(run, out)
        if not checkpoints(out):
            say.say(f"{out} has no checkpoint yet: its run begins again")
            return begin(run, out, say, workers, again=True)
    if not checkpoints(out):
        raise ValueError(f"{out} has no checkpoint to resume from; start without --resume")
    place, found = found_by_all(workers, out, lambda: newest_sound(checkpoints(out), say))
    data = read_data(run, found.tokenizer)
    refuse_other_text(run, data, out, place, found.manifest.get("data"))
    model = placed(found.model.train(), workers, run.train.shard_model)
    state = State(model, adam(model, run.optim), Stream(data.encoded, run.train.batch_tokens, run.seed))
    restore(state, place)
    say.say(f"going on after step {state.counts.step:,} of {place}")
    if workers.first:
        replace_text(out / "run.toml", to_toml(run))  # where things are now, and how long it is to train
    dev = Dev.of(data.dev, found.tokenizer, run)
    start = found.manifest.get("start")
    return Setup(run, out, found.tokenizer, dev, data.fingerprint, say, workers, data.accounts, start), state


def finish(setup: Setup, state: State, log: Log) -> Outcome:
    """Write `last/` and `average/`; if the averaged model scores best on dev, it becomes `best/`."""
    run, out, counts = setup.run, setup.out, state.counts
    stop = "done" if progress(counts, run.train) >= 1.0 else "patience"
    state = gathered(state, setup.workers)
    if not setup.workers.first:
        setup.workers.wait()
        return Outcome(out, out / "best", None, stop, first=False)
    last = log.evaluations.get(counts.step) or evaluate(state.model, setup.tokenizer, setup.dev, run)
    save_model(setup, state, "last", last)
    average(kept(setup) or checkpoints(out)[-1:], into=state.model)
    averaged = evaluate(state.model, setup.tokenizer, setup.dev, run)
    save_model(setup, state, "average", averaged)
    if averaged.score >= counts.best_score:
        save_model(setup, state, "best", averaged)
    elif setup.start and manifest_of(out / "best").get("step") == 0:
        setup.say.say("no evaluation was better than that of the model this run started from: best/ is that model")
    log.finished(counts, averaged)
    log.require_written()
    setup.say.say(f"seen in training: {state.stream.seen}")
    if wrong := account(counts):
        setup.say.say(f"what went wrong on the way: {wrong}")
    setup.workers.wait()
    return Outcome(out, out / "best", averaged, stop)


def save_model(setup: Setup, state: State, name: str, evaluation: Evaluation) -> None:
    """One of the model directories of the run."""
    longest = int(state.stream.encoded.sources.lengths.max())  # what translation splits longer lines by
    about = {"data": setup.fingerprint, "pairs": [each.row() for each in setup.accounts], "step": state.counts.step}
    about |= since(setup.start, longest)
    with written(setup.out / name, size=4 * state.parameters):
        bundle.save(setup.out / name, state.model, setup.tokenizer, **about, dev=evaluation.row())


def save_checkpoint(setup: Setup, state: State, planned: bool = True) -> None:
    """A checkpoint of this step, unless it is there; older ones that are no longer needed go."""
    counts = state.counts
    place, sound = checkpoint(setup.out, counts.step), planned and not counts.skipped_in_a_row
    if sound:
        counts.fruitless_rollbacks = 0
    state = gathered(state, setup.workers)
    if not setup.workers.first:
        return
    with written(place, size=12 * state.parameters):  # weights, and two numbers that Adam keeps of each
        if not place.exists():
            about = {"data": setup.fingerprint, "step": counts.step, "score": counts.dev_score, "good": sound}
            about |= {"start": setup.start} if setup.start else {}
            save(state, setup.tokenizer, place, **about)
        prune(setup.out, keep=set(kept(setup)))


def kept(setup: Setup) -> list[Path]:
    """The checkpoints that the averaged model is made of: the newest good ones, or those with the best dev scores."""
    saved = [place for place in checkpoints(setup.out) if good(place)]
    if setup.run.train.average == "best":
        saved.sort(key=lambda place: manifest_of(place).get("score") or float("-inf"))
    return saved[-setup.run.train.keep :]
