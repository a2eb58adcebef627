"""The training loop: from the settings of a run to its model directories."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import torch

from pellucid.config import to_toml
from pellucid.data.context import encode_with_context
from pellucid.data.source_profile import write_source_words
from pellucid.data.stream import Stream
from pellucid.decode.request import SearchConfig
from pellucid.evaluate.reference import REFERENCE_FILE, choose_reference, encode_reference
from pellucid.evaluate.score_words import require_score_tokenizer
from pellucid.model import Transformer
from pellucid.model.dropout import scale_dropout
from pellucid.store.atomic import WriteFailed, explain_write_error, is_failed_write, write_text_whole
from pellucid.store.directory import save_bundle
from pellucid.training.checkpoint import (
    TrainState,
    average_weights,
    checkpoint_path,
    checkpoint_step,
    explain_failed_write,
    gather_state,
    list_checkpoints,
    prune_checkpoints,
    restore_state,
    save_state,
)
from pellucid.training.config import RunConfig
from pellucid.training.data import CorpusGlance, TrainingData, read_data, read_shards_manifest
from pellucid.training.dev_evaluation import DevSet, Evaluation, evaluate_model, is_due, is_worthwhile, run_progress
from pellucid.training.direction import describe_direction
from pellucid.training.distributed import (
    ALONE,
    TrainingFailed,
    Workers,
    is_sharded,
    join_workers,
    place_model,
    watch_workers,
)
from pellucid.training.initial_embeddings import fill_embeddings_from_text
from pellucid.training.initial_model import InitialModel, ancestry_notes, open_initial_model
from pellucid.training.log import PlainOutput, ProgressOutput, RunLog, choose_output
from pellucid.training.optimizer import make_optimizer
from pellucid.training.process import STOP_SIGNALS, catch_signals, hold_run_lock, tune_memory
from pellucid.training.recovery import (
    describe_troubles,
    find_on_all_workers,
    is_good_checkpoint,
    load_newest_sound,
    recover,
    update_within_memory,
)
from pellucid.training.resume_checks import (
    RUN_FILES,
    Beginning,
    choose_beginning,
    record_texts,
    refuse_other_settings,
    refuse_other_text,
    set_earlier_results_aside,
)
from pellucid.training.stages import can_reverse, describe_change, make_noise, stage_at
from pellucid.training.tracking import Tracker, require_tracker, track_run
from pellucid.training.update import (
    dropout_factor,
    explain_float32,
    is_out_of_memory,
    learning_rate,
)

# Share of a run, at its end, whose checkpoints are averaged: older ones make the average worse (results/trials.md).
_AVERAGED_SHARE = 0.25


@dataclass(frozen=True)
class _RunSetup:
    """Settings, data and surroundings of a run, which training never changes."""

    run: RunConfig
    out: Path
    data: TrainingData
    dev_sets: tuple[DevSet, ...]  # one for each direction of a multilingual model, otherwise one
    output: ProgressOutput
    workers: Workers
    # Name, SHA-256 and history of the model that the run starts from, if there is one.
    initial_model: dict[str, Any] | None = None


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
) -> Outcome:
    """Train as `run` says, into the run directory `out`, or `resume` there from the newest checkpoint, to the bit.

    Where there is nothing to resume yet, the run begins. The direction is printed first, and then the `reasons` for
    settings that were chosen for the user. A run that begins takes a `glance` at its text.

    Raises ValueError for data that cannot be trained on, for an `out` that already holds a run, for a resume with other
    settings or data than the run began with, and while another process trains into `out`; TrainingFailed when the run
    cannot continue or cannot be saved.
    """
    tune_memory()
    # Only the first worker writes. It takes the lock before it joins the others, which would wait for it if it failed.
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        require_tracker(run.train.log)
    run_lock = hold_run_lock(out) if is_first else nullcontext()
    try:
        with run_lock, join_workers() as workers:
            output = choose_output() if workers.is_first else ProgressOutput()
            say = output.say if workers.is_first else PlainOutput(f"worker {workers.rank}: ").say
            try:
                with watch_workers(workers, say):
                    open_run = resume_run if resume else begin_run
                    setup, state = open_run(run, out, output, workers, reasons=reasons, glance=glance)
                    tracking = track_run(run, out, state.counts.step, output) if workers.is_first else nullcontext()
                    with tracking as tracker:
                        return _run_updates(setup, state, tracker)
            finally:
                output.close()
    except OSError as error:
        # A file that cannot be read is a fault of its own; only failed writes get advice on how to resume.
        if not is_failed_write(error):
            raise
        problem = str(error)
        if not isinstance(error, WriteFailed):
            problem = f"{error.filename or out}: {explain_write_error(error)}; what stood there is as it was"
        raise TrainingFailed(f"{problem}. {_resume_advice(out)}") from None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingFailed(f"out of memory: {error}. {_resume_advice(out)}") from error


def _run_updates(setup: _RunSetup, state: TrainState, tracker: Tracker | None) -> Outcome:
    """Update the weights until the run is over or a signal asks to stop, then save everything."""
    out, output, workers = setup.out, setup.output, setup.workers
    path, on_cpu = out / "log.jsonl" if workers.is_first else None, workers.device.type == "cpu"
    log = RunLog(path, state.counts, output, on_cpu, tracker)
    if setup.data.dev_overlap:
        log.beginning = {"dev_overlap": setup.data.dev_overlap}
    signals = ("", *STOP_SIGNALS)
    if note := explain_float32(setup.run.train.precision, workers.device):
        output.say(note)
    with catch_signals() as caught:
        stop = ""
        # Score the initial model before any update: best/ is to be better than that.
        if setup.initial_model and state.counts.dev_score is None:
            _evaluate_and_keep_best(setup, state, log)
            try_to_write(setup, lambda: save_checkpoint(setup, state, planned=False))
        while not stop and not _is_over(state, setup.run):
            _make_one_update(setup, state, log)
            # Each worker may catch another signal, or none; all must leave the loop after the same update.
            stop = signals[workers.all_reduce_max(signals.index(caught[0]) if caught else 0)]
    # A checkpoint at a signal is only to resume from: the undisturbed run has none there to average.
    save_checkpoint(setup, state, planned=not stop)
    if stop:
        output.say(f"{stop}: stopped after step {state.counts.step:,}; everything is saved. {_resume_command(out)}")
        return Outcome(out, out / "best", None, stop, workers.is_first)
    return _finish_run(setup, state, log)


def _resume_command(out: Path) -> str:
    """Return the command that resumes the run, as a sentence."""
    return f"Resume with: pellucid train {out / 'run.toml'} --out {out} --resume"


def _resume_advice(out: Path) -> str:
    """Return what to type after a failure, and how much of the run is saved by then."""
    if checkpoints := list_checkpoints(out):
        return f"The newest checkpoint is {checkpoints[-1].name}. {_resume_command(out)}"
    has_run_file = (out / "run.toml").is_file()
    return "No checkpoint was saved yet" + (
        f": the run will start from the beginning. {_resume_command(out)}" if has_run_file else ""
    )


def _make_one_update(setup: _RunSetup, state: TrainState, log: RunLog) -> None:
    """Change the weights once; then report, evaluate and save when that is due."""
    run, counts = setup.run, state.counts
    started, before = time.monotonic(), run_progress(counts, run.train)
    # It is halved each time the run goes back to an earlier checkpoint.
    rate = learning_rate(counts.step, before, run.optim) * 0.5**counts.rollbacks
    if run.optim.dropout_rise:
        scale_dropout(state.model, dropout_factor(state.stream.epochs, run.optim))
    _enter_stage(setup, state, before)
    batches = state.next_batches(run.train.accumulate, setup.workers)
    result = update_within_memory(
        state.model, state.optimizer, batches, rate, run.optim, run.train.precision, setup.workers
    )
    counts.step += 1
    counts.target_tokens += result.target_tokens
    recover(state, result, setup.out, run.optim.peak, setup.output, setup.workers)
    # Everybody takes the first worker's time: with train.minutes it decides when the run ends.
    [seconds] = setup.workers.broadcast(time.monotonic() - started)
    counts.seconds += seconds
    now = run_progress(counts, run.train)
    log.report_update(counts, result, seconds, now, state.stream.ledger)
    evaluating = is_due(run.train.evaluate_every, counts, before, now)
    if evaluating and (now >= 1.0 or is_worthwhile(counts, run.train)):
        _evaluate_and_keep_best(setup, state, log)
    # Without train.save_every, checkpoints are due when evaluations are, even one that was not worth its time.
    if is_due(run.train.save_every, counts, before, now) if run.train.save_every else evaluating:
        try_to_write(setup, lambda: save_checkpoint(setup, state))


def _enter_stage(setup: _RunSetup, state: TrainState, progress: float) -> None:
    """Let the stream show what it is to show when this share of the run is over, and say where that changes."""
    before, stage = state.stream.stage, stage_at(progress, setup.run, can_reverse(setup.run, state.model))
    if stage == before:
        return
    state.stream.enter(stage)
    if state.counts.step:
        change = describe_change(before, stage, [corpus.display_name for corpus in setup.run.data.corpora])
        setup.output.say(f"step {state.counts.step:,}, {progress:.0%} of the run: from here on {change}")


def try_to_write(setup: _RunSetup, write: Callable[[], None]) -> bool:
    """Return whether `write` could write; if it could not, say so, and let training continue."""
    try:
        write()
    except WriteFailed as error:
        setup.output.say(
            f"{error}. What was saved before is unchanged; training continues, and the next save will try again"
        )
        return False
    return True


def _is_over(state: TrainState, run: RunConfig) -> bool:
    """Whether the run has reached its end or has run out of patience."""
    patience = run.train.patience
    return run_progress(state.counts, run.train) >= 1.0 or (
        patience is not None and state.counts.stale_evaluations >= patience
    )


def _evaluate_and_keep_best(setup: _RunSetup, state: TrainState, log: RunLog) -> None:
    """Measure the model on the dev set; if it is the best so far, save it as `best/`."""
    started, counts, is_first = time.monotonic(), state.counts, setup.workers.is_first
    state = gather_state(state, setup.workers)
    # Every worker takes part in gathering a sharded model; after that only the first evaluates.
    evaluation = _evaluate(setup, state) if is_first else None
    better = evaluation is not None and evaluation.is_better(counts)
    written = (
        evaluation is not None and better and try_to_write(setup, lambda: save_model(setup, state, "best", evaluation))
    )
    bleu, dev_loss = (evaluation.bleu, evaluation.dev_loss) if evaluation else (0.0, 0.0)
    # The counts are part of each worker's state and must stay equal on all of them.
    seconds, bleu, dev_loss, better, written = setup.workers.broadcast(
        time.monotonic() - started, bleu, dev_loss, better, written
    )
    counts.seconds += seconds
    counts.evaluation_seconds += seconds
    counts.evaluations += 1
    counts.dev_score = bleu
    counts.stale_evaluations = 0 if better else counts.stale_evaluations + 1
    if written:
        counts.best_step, counts.best_score, counts.best_loss = counts.step, bleu, dev_loss
    # Where best/ could not be written, the next evaluation has only the saved one to beat.
    if written or not better:
        counts.highest_score = max(counts.highest_score, bleu)
    if evaluation is not None:
        log.report_evaluation(counts, evaluation)


def _evaluate(setup: _RunSetup, state: TrainState) -> Evaluation:
    """Measure the model of a state on the dev set, or on the dev set of each direction."""
    c, names = setup.run.train, map("-".join, setup.run.data.directions)
    evaluations = [evaluate_model(state.model, dev, c.dev_beam, c.precision) for dev in setup.dev_sets]
    return evaluations[0] if len(evaluations) == 1 else Evaluation.mean_of(dict(zip(names, evaluations, strict=True)))


def begin_run(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers = ALONE,
    restart: bool = False,
    reasons: Sequence[str] = (),
    glance: CorpusGlance | None = None,
) -> tuple[_RunSetup, TrainState]:
    """Read the data, learn the vocabulary and make a new model; all randomness follows from the seed.

    With `restart`, the run takes the place of one that was killed before its first checkpoint.
    """
    existing = [name for name in RUN_FILES if (out / name).exists()]
    if existing and not restart:
        raise ValueError(
            f"{out} already holds a run ({', '.join(existing)}); choose another --out, or resume that run with --resume"
        )
    # Now, and not only when the data is read. A run file is not refused for it: a finished run is read elsewhere, too.
    if run.train.dev_tokenize is not None:
        require_score_tokenizer(run.train.dev_tokenize)
    initial = open_initial_model(run)
    _say_direction(run, output, reasons, initial.about if initial else None)
    # Workers that read other files would train other models, and nobody would notice: each input is compared first.
    workers.require_same("model to start from", initial.sha256 if initial else "")
    data = read_data(run, initial.tokenizer if initial else None, glance=glance if workers.is_first else None)
    if restart:
        refuse_other_text(run, data, out)
    workers.require_same("training data", data.fingerprint)
    workers.require_same("vocabulary", "\n".join((*data.tokenizer.source_names, *data.tokenizer.target_names)))
    # Before the weights are drawn, so that they are the same on every worker.
    torch.manual_seed(run.seed)
    model = Transformer(run.model_config(data.tokenizer))
    origin = _initialise_weights(model, run, data, initial, workers)
    setup, state = _set_up(run, out, output, workers, data, model, initial.about if initial else None)
    read, trained = sum(account.read for account in data.accounts), len(data.encoded)
    summary = (
        f"{read:,} pairs read, {'all' if trained == read else f'{trained:,}'} of them to train on; "
        f"{data.tokenizer.target_vocabulary:,} pieces, {state.parameters / 1e6:.1f} M parameters, "
        f"{state.stream.batches_per_epoch:,} batches an epoch"
    )
    if run.train.both_directions and not can_reverse(run, model):
        origin.append(
            "train.both_directions needs one table of embeddings for both languages (model.tie = all, tokenizer.joint "
            "= true) and sources of one sentence and one direction; this run learns the one direction from its start"
        )
    for note in (*origin, *data.notes, *(note for dev in setup.dev_sets for note in dev.notes), summary):
        output.say(note)
    if workers.world_size > 1:
        sharding_note = ", and each keeps its part of the model" if is_sharded(state.model) else ""
        output.say(f"{workers.world_size} workers share the pairs of each update{sharding_note}")
    elif run.train.shard_model:
        output.say(
            "train.shard_model splits the model among several workers; there is only one, so it keeps the whole model"
        )
    if workers.is_first:
        out.mkdir(parents=True, exist_ok=True)
        if restart and (kept := set_earlier_results_aside(out)):
            output.say(f"what the run had before, its best model and its reports, is kept in {kept}")
        write_text_whole(out / "run.toml", to_toml(run))  # first: with it, a run killed from here on can restart
        record_texts(run, data, out)
    return setup, state


def _say_direction(
    run: RunConfig, output: ProgressOutput, reasons: Sequence[str], initial: Mapping[str, Any] | None
) -> None:
    """Say which direction the run learns, before the long reading of its text, and why settings were chosen.

    `initial` has what is known of the model that it starts from.
    """
    for path in run.data.dev_files:
        path.open("rb").close()  # a file that is missing is an error before anything is said
    recorded = (read_shards_manifest(Path(run.data.shards)).get("languages") if run.data.shards else None) or {}
    languages = (recorded["source"], recorded["target"]) if recorded else None
    for line in (describe_direction(run.data, languages, initial), *reasons):
        output.say(line)


def _set_up(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers,
    data: TrainingData,
    model: Transformer,
    initial: dict[str, Any] | None,
) -> tuple[_RunSetup, TrainState]:
    """Return the setup of a run, and the state of its first update, with the model where it is trained."""
    c = run.train
    model = place_model(model.train(), workers, c.shard_model)
    stream = Stream(data.encoded, c.batch_tokens, run.seed, noise=make_noise(run, data))
    state = TrainState(model, make_optimizer(model, run.optim), stream)
    sizes = c.dev_sentences, c.batch_tokens, run.data.max_pieces
    dev_sets = []
    for pairs, languages in zip(data.dev_sets, run.data.directions or [()], strict=True):
        tokenizer = run.data.tokenizer_of(languages, data.tokenizer)
        language = languages[1] if languages else (data.languages or {}).get("target")
        dev_sets.append(DevSet.from_pairs(pairs, tokenizer, *sizes, c.dev_tokenize, language, data.profile))
    state.stream.enter(stage_at(0.0, run, can_reverse(run, model)))
    return _RunSetup(run, out, data, tuple(dev_sets), output, workers, initial), state


def _initialise_weights(
    model: Transformer, run: RunConfig, data: TrainingData, initial: InitialModel | None, workers: Workers
) -> list[str]:
    """Give a new model the initial model's weights, or embeddings made from the text; return notes about them."""
    from_text = run.train.initial_embeddings == "text"
    if initial:
        model.load_state_dict(initial.model.state_dict())  # the same parameters, perhaps with another dropout
        notes = [f"starting from {initial.about['from']}: its weights, its tokenizer, a new optimiser"]
        if (context := initial.about.get("context", 0)) and not run.data.context:
            notes.append(
                f"it was trained with data.context = {context} and would forget it here: the models of this run read "
                f"no sentence before (--set data.context={context} goes on with it)"
            )
        if from_text:
            notes.append("train.initial_embeddings = text is for new models; this one keeps the embeddings it has")
        return notes
    if not from_text:
        return []
    if model.config.tie != "all":
        return [
            "train.initial_embeddings = text needs one table of embeddings for both languages (model.tie = all, "
            "tokenizer.joint = true); the tables of this model begin at random"
        ]
    fill_embeddings_from_text(model, data.encoded, run.seed, workers)
    return []


def resume_run(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers,
    *,
    reasons: Sequence[str] = (),
    glance: CorpusGlance | None = None,
) -> tuple[_RunSetup, TrainState]:
    """Return the setup and state that a run had at its newest checkpoint, or the setup and state of a new run."""
    beginning = _agree_on_beginning(run, out, workers)
    if beginning == "anew":
        output.say(f"Nothing to resume in {out}: a new run begins.")
        return begin_run(run, out, output, workers, reasons=reasons, glance=glance)
    if beginning == "again":
        output.say(f"{out} has no checkpoint yet: its run starts from the beginning")
        return begin_run(run, out, output, workers, restart=True, reasons=reasons, glance=glance)
    checkpoint, saved = find_on_all_workers(workers, out, lambda: load_newest_sound(list_checkpoints(out), output))
    _say_direction(run, output, reasons, saved.manifest.get("start"))
    data = read_data(run, saved.tokenizer)
    refuse_other_text(run, data, out, checkpoint, saved.manifest.get("data"))
    setup, state = _set_up(run, out, output, workers, data, saved.model, saved.manifest.get("start"))
    # Optimiser, position in the data and counts; the weights came with the bundle.
    restore_state(state, checkpoint)
    output.say(f"resuming after step {state.counts.step:,} of {checkpoint}")
    if workers.is_first:
        write_text_whole(out / "run.toml", to_toml(run))  # the data may have moved, the run may be longer now
    return setup, state


def _agree_on_beginning(run: RunConfig, out: Path, workers: Workers) -> Beginning:
    """Return how the run begins, as the first worker finds it: others may look later, or at a disk of their own."""
    beginnings: tuple[Beginning, ...] = ("anew", "again", "from a checkpoint")
    if not workers.is_first:
        [number] = workers.broadcast(0)
        if number < 0:
            raise TrainingFailed("worker 0 cannot resume the run, and says why")
        return beginnings[int(number)]
    try:
        beginning = choose_beginning(out)
        if (out / "run.toml").is_file():
            refuse_other_settings(run, out)
    except (ValueError, OSError):
        # Without this the others would wait for half an hour.
        workers.broadcast(-1)
        raise
    workers.broadcast(beginnings.index(beginning))
    return beginning


def _finish_run(setup: _RunSetup, state: TrainState, log: RunLog) -> Outcome:
    """Write `last/` and `average/`; if the averaged model scores best on the dev set, it becomes `best/`."""
    out, counts = setup.out, state.counts
    stop = "done" if run_progress(counts, setup.run.train) >= 1.0 else "patience"
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        setup.workers.barrier()
        return Outcome(out, out / "best", None, stop, first=False)
    # The last step was usually evaluated a moment ago: do not translate the dev set twice.
    last = log.evaluations.get(counts.step) or _evaluate(setup, state)
    save_model(setup, state, "last", last)
    earliest = (1 - _AVERAGED_SHARE) * counts.step
    averaged_checkpoints = [path for path in _checkpoints_to_keep(setup) if checkpoint_step(path) >= earliest]
    # Where no checkpoint is good (the last updates were all skipped, say), the newest stands for the average.
    averaged_checkpoints = averaged_checkpoints or list_checkpoints(out)[-1:]
    averaged = last
    if [checkpoint_step(path) for path in averaged_checkpoints] != [counts.step]:
        average_weights(averaged_checkpoints, into=state.model)
        averaged = _evaluate(setup, state)
    save_model(setup, state, "average", averaged)
    log.report_average(counts, averaged)
    if averaged.is_better(counts):
        save_model(setup, state, "best", averaged)
        setup.output.say("best/ is the average")
    elif setup.initial_model and counts.best_step == 0:
        setup.output.say("no evaluation was better than that of the model this run started from: best/ is that model")
    elif counts.best_step is not None:
        setup.output.say(f"best/ is the model after step {counts.best_step:,}")
    # After all models are written: reports that a full disk refused must not cost the run its models.
    log.require_written()
    setup.output.say(f"seen in training: {state.stream.describe_ledger}")
    if troubles := describe_troubles(counts):
        setup.output.say(f"what went wrong on the way: {troubles}")
    setup.workers.barrier()
    return Outcome(out, out / "best", averaged, stop)


def save_model(setup: _RunSetup, state: TrainState, name: str, evaluation: Evaluation) -> None:
    """Write one of the model directories of the run: `best`, `last` or `average`."""
    longest = int(state.stream.encoded.sources.lengths.max())  # translation splits longer lines
    data = setup.data
    manifest = {
        "data": data.fingerprint,
        "pairs": [account.row() for account in data.accounts],
        "step": state.counts.step,
    }
    manifest |= ancestry_notes(setup.initial_model, longest)
    facts = {
        # A fine-tuned model keeps the languages of the model that it started from, if its text does not say any.
        "languages": data.languages or (setup.initial_model or {}).get("languages"),
        "context": setup.run.data.context,
        "directions": setup.run.data.directions,
    }
    if data.profile is not None:
        facts["sources"] = data.profile.as_json()
    manifest |= {name: value for name, value in facts.items() if value}
    reference, limit = [], manifest["longest_source"]
    if setup.run.train.keep_reference:
        # A source has the same number of pieces for every language to write.
        tokenizer = setup.dev_sets[0].tokenizer
        sources = encode_with_context(tokenizer, [line.source for line in evaluation.translations])
        # None that translation would split into sentences.
        fits = (limit is None or len(ids) <= limit for ids in sources)
        reference = choose_reference(compress(evaluation.translations, fits))
    if reference:
        search = {"beam": setup.run.train.dev_beam, "length_penalty": SearchConfig.length_penalty}
        manifest["reference"] = {"lines": len(reference), **search}

    def write_more(folder: Path) -> None:
        if data.profile is not None:
            write_source_words(folder, data.profile)
        if reference:
            (folder / REFERENCE_FILE).write_text(encode_reference(reference), encoding="utf-8", newline="\n")

    # A float32 weight takes 4 bytes.
    with explain_failed_write(setup.out / name, size=4 * state.parameters):
        save_bundle(setup.out / name, state.model, data.tokenizer, also=write_more, **manifest, dev=evaluation.row())


def save_checkpoint(setup: _RunSetup, state: TrainState, planned: bool = True) -> None:
    """Write a checkpoint of this step unless there is one; remove older ones that are no longer needed."""
    counts = state.counts
    checkpoint, is_good = checkpoint_path(setup.out, counts.step), planned and not counts.skipped_in_a_row
    if is_good:
        # A good checkpoint after going back means that going back helped.
        counts.fruitless_rollbacks = 0
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        return
    with explain_failed_write(checkpoint, size=12 * state.parameters):  # weights and two running means
        if not checkpoint.exists():
            manifest = {"data": setup.data.fingerprint, "step": counts.step, "good": is_good}
            manifest |= {"start": setup.initial_model} if setup.initial_model else {}
            save_state(state, setup.data.tokenizer, checkpoint, **manifest)
        prune_checkpoints(setup.out, keep=set(_checkpoints_to_keep(setup)))


def _checkpoints_to_keep(setup: _RunSetup) -> list[Path]:
    """Return the newest good checkpoints, as many as the run keeps."""
    return [path for path in list_checkpoints(setup.out) if is_good_checkpoint(path)][-setup.run.train.keep :]
