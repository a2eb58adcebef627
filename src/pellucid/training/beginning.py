"""How a run begins or is resumed: from its settings to its data, its model and the state of its next update."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from pellucid.config import to_toml
from pellucid.data.stream import Stream
from pellucid.evaluate.score_words import require_score_tokenizer
from pellucid.model import Transformer
from pellucid.store.atomic import write_text_whole
from pellucid.training.checkpoint import TrainState, list_checkpoints, restore_state
from pellucid.training.config import RunConfig, TrainConfig
from pellucid.training.data import (
    CorpusGlance,
    ShardPart,
    TrainingData,
    read_data,
    read_shard_parts,
    write_held_out,
)
from pellucid.training.dev_evaluation import DevSet
from pellucid.training.direction import describe_direction
from pellucid.training.distributed import ALONE, TrainingFailed, Workers
from pellucid.training.fused.choice import NOT_FUSED, KernelChoice, choose_kernels
from pellucid.training.initial_embeddings import fill_embeddings_from_text
from pellucid.training.initial_model import InitialModel, open_initial_model
from pellucid.training.log import (
    PlainOutput,
    ProgressOutput,
    choose_output,
    describe_time_left,
)
from pellucid.training.optimizer import make_optimizer
from pellucid.training.process import hold_run_lock
from pellucid.training.process_group import join_workers, watch_workers
from pellucid.training.recovery import find_on_all_workers, load_newest_sound
from pellucid.training.resume_checks import (
    RUN_FILES,
    Beginning,
    choose_beginning,
    record_texts,
    refuse_other_settings,
    refuse_other_text,
    set_earlier_results_aside,
)
from pellucid.training.schedule import StagePlan, can_reverse, make_planters, plan_stages
from pellucid.training.tracking import require_tracker


@dataclass(frozen=True)
class RunSetup:
    """Settings, data and surroundings of a run, which training never changes."""

    run: RunConfig
    out: Path
    data: TrainingData
    dev_sets: tuple[DevSet, ...]  # one for each direction of a multilingual model, otherwise one
    stages: StagePlan
    output: ProgressOutput
    workers: Workers
    kernels: KernelChoice = NOT_FUSED
    # Name, SHA-256 and history of the model that the run starts from, if there is one.
    initial_model: dict[str, Any] | None = None


@contextmanager
def open_run(
    run: RunConfig,
    out: Path,
    resume: bool = False,
    reasons: Sequence[str] = (),
    glance: CorpusGlance | None = None,
    explain: bool = False,
) -> Iterator[tuple[RunSetup, TrainState]]:
    """Join the other workers, and begin or resume the run; its directory is locked until the block ends."""
    # Only the first worker writes. It takes the lock before it joins the others, which would wait
    # for it if it failed.
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        require_tracker(run.train.log)
    run_lock = hold_run_lock(out) if is_first else nullcontext()

    with run_lock, join_workers(run.train.shard_model) as workers:
        output = choose_output() if workers.is_first else ProgressOutput()
        say = output.say if workers.is_first else PlainOutput(f"worker {workers.rank}: ").say
        try:
            with watch_workers(workers, say):
                open_state = resume_run if resume else begin_run
                yield open_state(
                    run, out, output, workers, reasons=reasons, glance=glance, explain=explain
                )
        finally:
            output.close()


def begin_run(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers = ALONE,
    restart: bool = False,
    reasons: Sequence[str] = (),
    glance: CorpusGlance | None = None,
    explain: bool = False,
) -> tuple[RunSetup, TrainState]:
    """Read the data, learn the vocabulary and make a new model; all randomness follows from the seed.

    With `restart`, the run takes the place of one that was killed before its first checkpoint. The
    `reasons` for settings are written into run.toml, and said where the user wants them explained.
    """
    if not restart:
        refuse_held_directory(out)

    # Now, and not only when the data is read. A run file is not refused for it: a finished run is
    # read elsewhere, too.
    if run.train.dev_tokenize is not None:
        require_score_tokenizer(run.train.dev_tokenize)

    # Workers that read other files would train other models, and nobody would notice: each input is
    # compared first.
    initial = open_initial_model(run)
    about_initial = initial.about if initial else None
    parts = _say_direction(run, output, about_initial)
    workers.require_same("model to start from", initial.sha256 if initial else "")

    initial_tokenizer = initial.tokenizer if initial else None
    glance = glance if workers.is_first else None
    data = read_data(run, initial_tokenizer, glance, parts)
    if restart:
        refuse_other_text(run, data, out)
    workers.require_same("training data", data.fingerprint)
    pieces = (*data.tokenizer.source_names, *data.tokenizer.target_names)
    workers.require_same("vocabulary", "\n".join(pieces))

    # Before the weights are drawn, so that they are the same on every worker.
    torch.manual_seed(run.seed)
    model = Transformer(run.model_config(data.tokenizer))
    notes_on_weights = _initialise_weights(model, run, data, initial, workers)
    setup, state = _set_up(run, out, output, workers, data, model, about_initial)

    lines = _describe_beginning(setup, state, chosen=bool(reasons) and not explain)
    for line in (*lines, *(reasons if explain else ()), *notes_on_weights):
        output.say(line)
    if workers.is_first:
        out.mkdir(parents=True, exist_ok=True)
        if restart and (kept := set_earlier_results_aside(out)):
            output.say(
                f"what the run had before, its best model and its reports, is kept in {kept}"
            )
        # First: with it, a run that is killed from here on can restart.
        _write_run_file(run, out, reasons)
        record_texts(run, data, out)
        write_held_out(run, data.dev, out)
    return setup, state


def refuse_held_directory(out: Path) -> None:
    """Raise ValueError where a directory holds a run already, so that a new one cannot begin there."""
    existing = [name for name in RUN_FILES if (out / name).exists()]
    if existing:
        raise ValueError(
            f"{out} already holds a run ({', '.join(existing)}); choose another --out, or resume "
            "that run with --resume"
        )


def _write_run_file(run: RunConfig, out: Path, reasons: Sequence[str] = ()) -> None:
    """Write run.toml: the settings, under the reasons for those that were chosen, as comments.

    Without `reasons`, as when a run is resumed, the file keeps the ones it has.
    """
    path = out / "run.toml"
    if reasons:
        heading = "Settings that were not named were chosen for this run. The reasons:"
        comments = [heading, *(f"- {' '.join(reason.split())}" for reason in reasons)]
        kept = "".join(f"# {comment}\n" for comment in comments) + "\n"
    elif path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = "".join(takewhile(lambda line: line.startswith("#"), lines))
        kept = kept and kept + "\n"
    else:
        kept = ""
    write_text_whole(path, kept + to_toml(run))


def _say_direction(
    run: RunConfig, output: ProgressOutput, initial: Mapping[str, Any] | None
) -> list[ShardPart]:
    """Say which direction the run learns, before the long reading of its text; return its shards, if it names some.

    `initial` has what is known of the model that it starts from.
    """
    for path in run.data.dev_files:
        path.open("rb").close()  # a file that is missing is an error before anything is said

    languages, parts = None, read_shard_parts(run.data)
    if parts:
        recorded = parts[0].manifest.get("languages")
        languages = (recorded["source"], recorded["target"]) if recorded else None
    output.say(describe_direction(run.data, languages, initial))
    return parts


def _initialise_weights(
    model: Transformer,
    run: RunConfig,
    data: TrainingData,
    initial: InitialModel | None,
    workers: Workers,
) -> list[str]:
    """Give a new model the initial model's weights, or embeddings made from the text; return notes."""
    from_text = run.train.initial_embeddings == "text"
    if initial:
        # The same parameters, perhaps with another dropout.
        model.load_state_dict(initial.model.state_dict())
        return _describe_initial_model(run, initial, from_text)
    if not from_text:
        return []
    if model.config.tie != "all":
        return [
            "train.initial_embeddings = text needs one table of embeddings for both languages "
            "(model.tie = all, tokenizer.joint = true); the tables of this model begin at random"
        ]

    fill_embeddings_from_text(model, data.encoded, run.seed, workers)
    return []


def _describe_initial_model(run: RunConfig, initial: InitialModel, from_text: bool) -> list[str]:
    """Return sentences on what a run takes from the model that it starts from, and what it does not."""
    notes = [f"starting from {initial.about['from']}: its weights, its tokenizer, a new optimiser"]
    context = initial.about.get("context", 0)
    if context and not run.data.context:
        notes.append(
            f"it was trained with data.context = {context} and would forget it here: the models "
            f"of this run read no sentence before (--set data.context={context} goes on with it)"
        )
    for name, what in (("terms", "marked terms"), ("memory", "similar translations")):
        if initial.about.get(name) and not getattr(run.data, name):
            notes.append(
                f"it was trained with {what} and would forget them here (--set data.{name}="
                f"{initial.about[name]:g} goes on with them)"
            )
    if from_text:
        notes.append(
            "train.initial_embeddings = text is for new models; this one keeps the embeddings it "
            "has"
        )
    return notes


def _set_up(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers,
    data: TrainingData,
    model: Transformer,
    initial: dict[str, Any] | None,
) -> tuple[RunSetup, TrainState]:
    """Return the setup of a run, and the state of its first update, with the model where it is trained."""
    c = run.train
    model = workers.place_model(model.train())
    stream = Stream(data.encoded, c.batch_tokens, run.seed, **make_planters(run, data))
    state = TrainState(model, make_optimizer(model, run.optim), stream)

    sizes = c.dev_sentences, c.batch_tokens, run.data.max_pieces
    dev_sets = []
    for pairs, languages in zip(data.dev_sets, run.data.directions or [()], strict=True):
        tokenizer = run.data.tokenizer_of(languages, data.tokenizer)
        language = languages[1] if languages else (data.languages or {}).get("target")
        dev_sets.append(
            DevSet.from_pairs(pairs, tokenizer, *sizes, c.dev_tokenize, language, data.profile)
        )

    stages = plan_stages(run, model)
    state.stream.enter(stages.stage_at(0.0))
    kernels = choose_kernels(
        c.fused, c.precision, model.config, workers.device, workers.in_lockstep
    )
    setup = RunSetup(run, out, data, tuple(dev_sets), stages, output, workers, kernels, initial)
    return setup, state


def _describe_beginning(setup: RunSetup, state: TrainState, chosen: bool) -> Iterator[str]:
    """Yield what a new run says: its text, its model, when it is ready, and then what is unusual.

    `chosen` says that settings were chosen for the user, with reasons that are not said.
    """
    run, data, workers = setup.run, setup.data, setup.workers
    read, trained = sum(account.read for account in data.accounts), len(data.encoded)
    share = "all" if trained == read else f"{trained:,}"
    yield f"Text: {read:,} pairs read, {share} of them to train on."

    why = ""
    if chosen:
        why = " Settings were chosen for it: --explain says why, and so does run.toml."
    yield (
        f"Model: {state.parameters / 1e6:.1f} million parameters, and a vocabulary of "
        f"{data.tokenizer.target_vocabulary:,} pieces.{why}"
    )
    yield describe_end(run.train, state.counts.seconds)
    if run.train.both_directions and not can_reverse(run, state.model):
        yield (
            "train.both_directions needs one table of embeddings for both languages (model.tie = "
            "all, tokenizer.joint = true) and sources of one sentence and one direction; this "
            "run learns the one direction from its start"
        )
    if run.data.terms and data.tokenizer.term_marks is None:
        yield (
            "data.terms needs pieces that mark terms, which the vocabulary of the initial model "
            "does not have; this run learns none"
        )
    if run.data.memory and data.tokenizer.memory_mark is None:
        yield (
            "data.memory needs a piece that marks a similar translation, which the vocabulary of "
            "the initial model does not have; this run learns to use none"
        )
    yield from data.notes
    for dev in setup.dev_sets:
        yield from dev.notes

    if sharing := workers.describe():
        yield sharing
    elif run.train.shard_model:
        yield (
            "train.shard_model splits the model among several workers; there is only one, so it "
            "keeps the whole model"
        )


def describe_end(train: TrainConfig, spent: float) -> str:
    """Return the line that says when a run will be ready that has trained for `spent` seconds."""
    if train.minutes is None:
        return (
            f"Ready: after {train.steps:,} updates; how long they take is said when some are made. "
            "Ctrl-C saves everything and stops."
        )
    return describe_time_left(max(0.0, 60 * train.minutes - spent))


def resume_run(
    run: RunConfig,
    out: Path,
    output: ProgressOutput,
    workers: Workers,
    *,
    reasons: Sequence[str] = (),
    glance: CorpusGlance | None = None,
    explain: bool = False,
) -> tuple[RunSetup, TrainState]:
    """Return the setup and state that a run had at its newest checkpoint, or begin a new run."""
    beginning = _agree_on_beginning(run, out, workers)
    if beginning == "anew":
        output.say(f"Nothing to resume in {out}: a new run begins.")
        return begin_run(run, out, output, workers, reasons=reasons, glance=glance, explain=explain)
    if beginning == "again":
        output.say(f"{out} has no checkpoint yet: its run starts from the beginning")
        return begin_run(
            run, out, output, workers, restart=True, reasons=reasons, glance=glance, explain=explain
        )

    checkpoint, saved = find_on_all_workers(
        workers, out, lambda: load_newest_sound(list_checkpoints(out), output)
    )
    start = saved.manifest.get("start")
    parts = _say_direction(run, output, start)
    data = read_data(run, saved.tokenizer, parts=parts)
    refuse_other_text(run, data, out, checkpoint, saved.manifest.get("data"))

    setup, state = _set_up(run, out, output, workers, data, saved.model, start)
    # Optimiser, position in the data and counts; the weights came with the bundle.
    restore_state(state, checkpoint)
    output.say(f"resuming after step {state.counts.step:,} of {checkpoint}")
    output.say(describe_end(run.train, state.counts.seconds))
    if workers.is_first:
        # The data may have moved, the run may be longer now.
        _write_run_file(run, out)
        write_held_out(run, data.dev, out)
    return setup, state


def _agree_on_beginning(run: RunConfig, out: Path, workers: Workers) -> Beginning:
    """Return how the run begins, as the first worker finds it.

    Others may look later, or at a disk of their own.
    """
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
