"""The saving of a run: its checkpoints, its best model, and the models of its end."""

import time
from collections.abc import Callable
from itertools import compress
from pathlib import Path
from typing import Any

from pellucid.data.context import encode_with_context
from pellucid.data.source_profile import write_source_words
from pellucid.decode.request import SearchConfig
from pellucid.evaluate.reference import (
    REFERENCE_FILE,
    ReferenceLine,
    choose_reference,
    encode_reference,
)
from pellucid.store.atomic import WriteFailed
from pellucid.store.directory import save_bundle
from pellucid.training.beginning import RunSetup
from pellucid.training.checkpoint import (
    TrainState,
    average_weights,
    checkpoint_path,
    checkpoint_step,
    explain_failed_write,
    gather_state,
    list_checkpoints,
    prune_checkpoints,
    save_state,
)
from pellucid.training.dev_evaluation import Evaluation, evaluate_model
from pellucid.training.distributed import ALONE, Workers
from pellucid.training.initial_model import ancestry_notes
from pellucid.training.log import RunLog
from pellucid.training.recovery import describe_troubles, is_good_checkpoint

# Share of a run, at its end, whose checkpoints are averaged: older ones make the average worse
# (results/trials.md).
_AVERAGED_SHARE = 0.25


def save_checkpoint(setup: RunSetup, state: TrainState, planned: bool = True) -> None:
    """Write a checkpoint of this step unless there is one; remove older ones that are not needed.

    One that is not `planned` is only to resume from.
    """
    counts = state.counts
    is_good = planned and not counts.skipped_in_a_row
    if is_good:
        # A good checkpoint after going back means that going back helped.
        counts.fruitless_rollbacks = 0
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        return

    checkpoint = checkpoint_path(setup.out, counts.step)
    # Weights and two running means.
    with explain_failed_write(checkpoint, size=12 * state.parameters):
        if not checkpoint.exists():
            manifest: dict[str, Any] = {
                "data": setup.data.fingerprint,
                "step": counts.step,
                "good": is_good,
            }
            if setup.initial_model:
                manifest["start"] = setup.initial_model
            save_state(state, setup.data.tokenizer, checkpoint, **manifest)
        prune_checkpoints(setup.out, keep=set(_checkpoints_to_keep(setup)))


def _checkpoints_to_keep(setup: RunSetup) -> list[Path]:
    """Return the newest good checkpoints, as many as the run keeps."""
    good = [path for path in list_checkpoints(setup.out) if is_good_checkpoint(path)]
    return good[-setup.run.train.keep :]


def try_to_write(setup: RunSetup, write: Callable[[], None]) -> bool:
    """Return whether `write` could write; if it could not, say so, and let training continue."""
    try:
        write()
    except WriteFailed as error:
        setup.output.say(
            f"{error}. What was saved before is unchanged; training continues, and the next save "
            "will try again"
        )
        return False
    return True


def evaluate_and_keep_best(setup: RunSetup, state: TrainState, log: RunLog) -> None:
    """Measure the model on the dev set; if it is the best so far, save it as `best/`."""
    started = time.monotonic()
    counts, workers = state.counts, setup.workers

    # Every worker takes part in gathering a sharded model; after that only the first has all of it,
    # and evaluates. Otherwise all do, each a share.
    state = gather_state(state, workers)
    evaluation, better, written, bleu, dev_loss = None, False, False, 0.0, 0.0
    if not workers.in_lockstep:
        evaluation = evaluate_state(setup, state, workers)
    elif workers.is_first:
        evaluation = evaluate_state(setup, state)
    if evaluation is not None and workers.is_first:
        best = evaluation
        better = best.is_better(counts)
        bleu, dev_loss = best.bleu, best.dev_loss
        if better:
            written = try_to_write(setup, lambda: save_model(setup, state, "best", best))

    # The counts are part of each worker's state and must stay equal on all of them.
    seconds, bleu, dev_loss, better, written = workers.broadcast(
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
    if evaluation is not None and workers.is_first:
        log.report_evaluation(counts, evaluation)


def evaluate_state(setup: RunSetup, state: TrainState, workers: Workers = ALONE) -> Evaluation:
    """Measure the model of a state on the dev set, or on the dev set of each direction; `workers` share it."""
    c = setup.run.train
    evaluations = []
    for dev in setup.dev_sets:
        evaluations.append(evaluate_model(state.model, dev, c.dev_beam, c.precision, workers))
    if len(evaluations) == 1:
        return evaluations[0]
    names = map("-".join, setup.run.data.directions)
    return Evaluation.mean_of(dict(zip(names, evaluations, strict=True)))


def save_model(setup: RunSetup, state: TrainState, name: str, evaluation: Evaluation) -> None:
    """Write one of the model directories of the run: `best`, `last` or `average`."""
    profile = setup.data.profile
    facts = _describe_training(setup, state)
    reference = []
    if setup.run.train.keep_reference:
        reference = _choose_reference_lines(setup, evaluation, facts["longest_source"])
    if reference:
        facts["reference"] = {
            "lines": len(reference),
            "beam": setup.run.train.dev_beam,
            "length_penalty": SearchConfig.length_penalty,
        }

    def write_more(folder: Path) -> None:
        if profile is not None:
            write_source_words(folder, profile)
        if reference:
            text = encode_reference(reference)
            (folder / REFERENCE_FILE).write_text(text, encoding="utf-8", newline="\n")

    facts["dev"] = evaluation.row()
    # A float32 weight takes 4 bytes.
    with explain_failed_write(setup.out / name, size=4 * state.parameters):
        save_bundle(setup.out / name, state.model, setup.data.tokenizer, also=write_more, **facts)


def _describe_training(setup: RunSetup, state: TrainState) -> dict[str, Any]:
    """Return what the manifest of a model says of its text and its training."""
    run, data, initial = setup.run, setup.data, setup.initial_model
    _, longest = state.stream.encoded.sources.length_range  # translation splits longer lines
    facts: dict[str, Any] = {
        "data": data.fingerprint,
        "pairs": [account.row() for account in data.accounts],
        "step": state.counts.step,
        **ancestry_notes(initial, longest),
    }

    # A fine-tuned model keeps the languages of the model that it started from, if its text does not
    # say any.
    if languages := data.languages or (initial or {}).get("languages"):
        facts["languages"] = languages
    if run.data.context:
        facts["context"] = run.data.context
    if run.data.terms and data.tokenizer.term_marks is not None:
        facts["terms"] = run.data.terms
    if run.data.memory and data.tokenizer.memory_mark is not None:
        facts["memory"] = run.data.memory
    if run.data.directions:
        facts["directions"] = run.data.directions
    if data.profile is not None and (sources := data.profile.as_json()):
        facts["sources"] = sources
    return facts


def _choose_reference_lines(
    setup: RunSetup, evaluation: Evaluation, longest: int | None
) -> list[ReferenceLine]:
    """Return the dev lines that are kept with a model, none that translation would split."""
    # A source has the same number of pieces for every language to write.
    tokenizer = setup.dev_sets[0].tokenizer
    lines = [line.source for line in evaluation.translations]
    fits = []
    for ids in encode_with_context(tokenizer, lines):
        fits.append(longest is None or len(ids) <= longest)
    return choose_reference(compress(evaluation.translations, fits))


def save_last_models(setup: RunSetup, state: TrainState, log: RunLog) -> Evaluation | None:
    """Write `last/` and `average/`; the averaged model becomes `best/` if it scores best on the dev set.

    Returns its scores, which only the first worker knows.
    """
    counts = state.counts
    state = gather_state(state, setup.workers)
    if not setup.workers.is_first:
        setup.workers.barrier()
        return None

    # The last step was usually evaluated a moment ago: do not translate the dev set twice.
    last = log.evaluations.get(counts.step) or evaluate_state(setup, state)
    save_model(setup, state, "last", last)

    averaged, checkpoints = last, _checkpoints_to_average(setup, counts.step)
    if [checkpoint_step(path) for path in checkpoints] != [counts.step]:
        average_weights(checkpoints, into=state.model)
        averaged = evaluate_state(setup, state)
    save_model(setup, state, "average", averaged)
    log.report_average(counts, averaged)

    if averaged.is_better(counts):
        save_model(setup, state, "best", averaged)
        setup.output.say("best/ is the average")
    elif setup.initial_model and counts.best_step == 0:
        setup.output.say(
            "no evaluation was better than that of the model this run started from: best/ is "
            "that model"
        )
    elif counts.best_step is not None:
        setup.output.say(f"best/ is the model after step {counts.best_step:,}")

    # After all models are written: reports that a full disk refused must not cost the run its
    # models.
    log.require_written()
    setup.output.say(f"The model saw {state.stream.describe_ledger}.")
    if troubles := describe_troubles(counts):
        setup.output.say(f"what went wrong on the way: {troubles}")
    setup.workers.barrier()
    return averaged


def _checkpoints_to_average(setup: RunSetup, step: int) -> list[Path]:
    """Return the good checkpoints of the last part of a run that ended after so many updates."""
    earliest = (1 - _AVERAGED_SHARE) * step
    good = [path for path in _checkpoints_to_keep(setup) if checkpoint_step(path) >= earliest]
    # Where no checkpoint is good (the last updates were all skipped, say), the newest stands for
    # the average.
    return good or list_checkpoints(setup.out)[-1:]
