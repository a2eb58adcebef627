"""`pellucid plan`: estimates time, memory and disk of a run before it starts."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import json_line, write_lines
from pellucid.cli.options import (
    JSON,
    SETTINGS,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    argument,
    file_option,
    option,
)

if TYPE_CHECKING:
    from pellucid.workflows.plan.estimate import RunPlan

_GIGABITS = (1, 10, 100)  # speeds of a network, in gigabits a second
PLAN_EXAMPLES = """\
  pellucid plan recipes/multi30k-en-de.toml
  pellucid plan --source train.en --target train.es --minutes 20
  pellucid plan recipes/multi30k-en-de.toml --set model.size=small --set train.minutes=60
  pellucid plan recipes/wmt14-en-de-base.toml --stand-in 20000"""


def run_plan(
    run_file: Annotated[str | None, argument("RUN.toml", "file with the settings of the run")] = None,
    source: Annotated[
        str | None,
        file_option("instead of RUN.toml: sentences or pairs, as `pellucid train` takes them"),
    ] = None,
    target: Annotated[str | None, file_option("their translations, line by line")] = None,
    dev_source: Annotated[str | None, file_option("sentences to evaluate on")] = None,
    dev_target: Annotated[str | None, file_option("their translations")] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    size: Annotated[str | None, option("size of the model", "tiny|small|base|big")] = None,
    steps: Annotated[int | None, option("number of updates to train for")] = None,
    minutes: Annotated[float | None, option("train for so many minutes instead")] = None,
    change: Annotated[list[str] | None, SETTINGS] = None,
    stand_in: Annotated[
        int | None,
        option(
            "plan with so many phrasebook pairs, as long as news, instead of the run's data",
            "PAIRS",
            min=1,
        ),
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Estimate what a run will take, before it starts.

    Show pairs, pieces, batches and updates; parameters, work, memory and disk; the time on this
    machine, measured on a few seconds of real updates with real batches; and what should be changed
    first. Nothing is written.
    """
    from pellucid.demo.phrasebook import generate_phrases
    from pellucid.training.defaults import run_settings
    from pellucid.workflows.plan.estimate import (
        TRIAL_SECONDS,
        plan_run,
        stand_in_data,
        stand_in_run,
    )

    if stand_in is None:
        settings, _ = run_settings(
            run_file,
            change or (),
            source=source,
            target=target,
            dev_source=dev_source,
            dev_target=dev_target,
            source_language=source_language,
            target_language=target_language,
            size=size,
            steps=steps,
            minutes=minutes,
        )
        data = None

    else:
        if run_file is None:
            raise ValueError("--stand-in needs a run file, whose settings it plans with")

        settings = stand_in_run(Path(run_file), change or ())
        data = stand_in_data(stand_in, settings, generate_phrases(settings.seed))

    # On standard error, for with --json standard output is one object only.
    typer.echo(
        f"reading the data; then updates are tried, for {TRIAL_SECONDS:g} s or a few of them",
        err=True,
    )
    plan = plan_run(settings, data, TRIAL_SECONDS)
    write_lines([json_line(_plan_as_json(plan))] if json else _plan_as_text(plan))


def _plan_as_json(plan: "RunPlan") -> dict[str, Any]:
    """Return a plan as one JSON object: bytes, seconds and operations as numbers, None for what is not known."""
    from pellucid.workflows.plan.advice import list_advice

    epoch = plan.epoch
    return {
        "stand_in": plan.stand_in,
        "data": {
            "pairs": len(epoch.encoded),
            "dev_pairs": plan.dev_pairs,
            "vocabulary": list(plan.learned),
        },
        "epoch": {
            "pairs": epoch.pairs,
            "source_pieces": epoch.source_pieces,
            "target_pieces": epoch.target_pieces,
            "source_positions": epoch.source_positions,
            "target_positions": epoch.target_positions,
            "batches": epoch.batches,
            "updates": plan.updates_per_epoch,
        },
        "run": {"updates": plan.steps, "epochs": plan.epochs, "seconds": plan.seconds},
        "parameters": {**asdict(plan.parameters), "total": plan.parameters.total},
        "flop_per_update": plan.flops,
        "flop_per_second": plan.flops / plan.trial.seconds if plan.trial else None,
        "trial": asdict(plan.trial) if plan.trial else None,
        "memory": {
            **asdict(plan.memory),
            "adam": plan.memory.optimizer,  # the key's name before there was another optimizer
            "total": plan.memory.total,
            "free": plan.free_memory,
        },
        "disk": {
            "checkpoints": plan.checkpoints,
            "checkpoint": plan.checkpoint_bytes,
            "model": plan.model_bytes,
            "total": plan.disk,
            "free": plan.free_disk,
        },
        "network": {
            "bytes": plan.network_bytes,
            "per": "batch" if plan.run.train.shard_model else "update",
            "seconds": {f"{gigabits} Gbit/s": second for gigabits, second in _network_seconds(plan).items()},
        },
        "notes": list(plan.notes),
        "advice": list_advice(plan),
    }


def _plan_as_text(plan: "RunPlan") -> Iterator[str]:
    """Yield the lines of a plan in words, then advice on what to change."""
    from pellucid.workflows.plan.advice import list_advice

    if plan.stand_in:
        yield "stand-in    phrasebook pairs as long as news; settings, sizes, work and speed hold, epochs do not"
    yield from _data_lines(plan)
    yield from _cost_lines(plan)
    changes = list_advice(plan)
    yield from (
        "",
        "To change:" if changes else "Nothing to change.",
        *(f"- {sentence}" for sentence in changes),
    )


def _data_lines(plan: "RunPlan") -> Iterator[str]:
    """Yield lines on the training data: pairs, pieces, batches and padding."""
    epoch, c = plan.epoch, plan.run.train
    pairs = epoch.pairs
    # Positions are pieces and the padding that fills each batch up to its longest sentence.
    padding = 1 - (epoch.source_pieces + epoch.target_pieces) / (epoch.source_positions + epoch.target_positions)
    vocabulary = " and ".join(f"{pieces:,}" for pieces in plan.learned)
    yield f"data        {len(epoch.encoded):,} pairs, {plan.dev_pairs:,} dev pairs; a vocabulary of {vocabulary} pieces"
    yield from (f"            {note}" for note in plan.notes)
    yield (
        f"epoch       {epoch.source_pieces:,} source and {epoch.target_pieces:,} target pieces "
        f"({epoch.source_pieces / pairs:.1f} and {epoch.target_pieces / pairs:.1f} a sentence)"
    )
    yield (
        f"batches     {epoch.batches:,} an epoch, {plan.updates_per_epoch:,.0f} updates of {c.accumulate}; "
        f"on average {epoch.target_positions / epoch.batches:,.0f} of {c.batch_tokens:,} target positions; "
        f"padding is {padding:.1%} of all positions"
    )


def _cost_lines(plan: "RunPlan") -> Iterator[str]:
    """Yield lines on the cost of the run: parameters, work, time, memory and disk."""
    from pellucid.workflows.plan.advice import format_bytes, format_count, format_seconds

    p, m, trial = plan.parameters, plan.memory, plan.trial
    yield (
        f"model       {format_count(p.total)} parameters: embeddings {format_count(p.embeddings)}, encoder "
        f"{format_count(p.encoder)}, decoder {format_count(p.decoder)}"
    )
    if plan.steps is not None:
        # A run of so many minutes spends some of them on evaluations, so it makes fewer updates.
        at_most = "at most " if plan.run.train.steps is None else ""
        whose_epochs = "of the stand-in" if plan.stand_in else ""
        yield f"run         {at_most}{plan.steps:,} updates, {plan.epochs:,.1f} epochs {whose_epochs}".rstrip()

    speed = f"; {plan.flops / trial.seconds / 1e9:,.0f} GFLOP/s were reached" if trial else ""
    yield f"work        {plan.flops / 1e9:,.1f} GFLOP an update, padding not counted{speed}"
    if trial and plan.seconds is not None:
        yield (
            f"time        {format_seconds(plan.seconds)}, evaluations and saving "
            f"{'on top' if plan.run.train.steps is not None else 'within'}: {format_seconds(trial.seconds)} an update"
        )
        yield f"            {_describe_certainty(plan)}"

    trial_memory = (
        f"; the trial's process held {format_bytes(trial.peak_memory)} in all" if trial and trial.peak_memory else ""
    )
    yield (
        f"memory      about {format_bytes(m.total)}: weights {format_bytes(m.weights)}, gradients "
        f"{format_bytes(m.gradients)}, optimizer {format_bytes(m.optimizer)}, "
        f"activations of the largest batch {format_bytes(m.activations)}{trial_memory}"
    )
    if plan.run.train.shard_model:  # activations are not sharded: each worker has its own batch
        yield (
            f"            so for one worker; of W under torchrun each holds {format_bytes(m.shared)} / W and its own "
            "activations (train.shard_model)"
        )

    yield (
        f"disk        {format_bytes(plan.disk)} at most: {plan.checkpoints} checkpoints of "
        f"{format_bytes(plan.checkpoint_bytes)} and one being written, 3 models of {format_bytes(plan.model_bytes)}; "
        f"{format_bytes(plan.free_disk)} are free here"
    )
    seconds = (f"{gigabits} Gbit/s {second:.2g} s" for gigabits, second in _network_seconds(plan).items())
    how_often = "for each batch it computes" if plan.run.train.shard_model else "an update"
    yield (
        f"network     of many workers under torchrun each sends {format_bytes(plan.network_bytes)} {how_often}, "
        f"and receives as much (of two, half): with {', '.join(seconds)}"
    )


def _network_seconds(plan: "RunPlan") -> dict[int, float]:
    """Return the seconds that sending takes, by the gigabits a second of the network."""
    return {gigabits: plan.network_bytes * 8 / (gigabits * 1e9) for gigabits in _GIGABITS}


def _describe_certainty(plan: "RunPlan") -> str:
    """Return the sentence on how sure the estimated time is, from the updates that were tried."""
    trial = plan.trial
    assert trial is not None
    device = f"{trial.threads} thread{'s' * (trial.threads != 1)}" if trial.device == "cpu" else trial.device
    updates = f"{trial.updates} update{'s' * (trial.updates != 1)} on {device}"
    trial_share = f", of {trial.batches} of {plan.run.train.accumulate} batches" * (
        trial.batches < plan.run.train.accumulate
    )
    if trial.updates < 4:  # too few to say how far they spread
        return f"a guess: no more than {updates}{trial_share} could be tried"
    return f"half of {updates}{trial_share} were within {trial.spread:.0%} of the median"
