"""`pellucid improve`: teaches a model corrections of its translations, and keeps the result only if it is better."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import read_sentences, require_file, say_notes, show_progress, write_lines
from pellucid.cli.options import (
    FAILED,
    MODEL,
    SETTINGS,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    argument,
    option,
)
from pellucid.store.atomic import write_text_whole

if TYPE_CHECKING:
    from pellucid.api import Model
    from pellucid.training.config import RunConfig
    from pellucid.workflows.improvement import Changes

IMPROVE_EXAMPLES = """\
  pellucid improve runs/mine/best corrections.tsv --out runs/better
  pellucid improve runs/mine/best suggestions.jsonl --keep contracts.en --out runs/better
  pellucid improve runs/mine/best corrections.tsv --without 7 --out runs/without-7"""

# Settings of a short run, which is judged when it is
# over; its own evaluations only show that it goes well.
_QUICK = ("train.batch_tokens=2048", "train.dev_sentences=50")


_SEED = 1  # seed by which corrections are held out and old text is drawn


def run_improve(
    model: Annotated[str, MODEL],
    corrections: Annotated[
        str,
        argument(
            "CORRECTIONS",
            "a .tsv with three columns: source, wrong translation, right translation; or any file of pairs of a "
            "source and its right translation: .tmx, the .jsonl of `pellucid serve --corrections`, ...; a .tsv of two "
            "columns needs its languages: a header, its name, or --from and --to",
        ),
    ],
    out: Annotated[str, option("directory of the run; the new model is DIR/best", "DIR")],
    keep: Annotated[
        str | None,
        option("sentences, one per line, whose translations must stay", "FILE"),
    ] = None,
    without: Annotated[
        list[int] | None,
        option("take correction N back: its line in the file, or its unit; can be repeated", "N"),
    ] = None,
    source: Annotated[
        str | None,
        option(
            "old text, where that of the model's own training is gone: its sources, some of which are held out as "
            "dev (--set data.dev_source=FILE and data.dev_target=FILE name others)",
            "FILE",
        ),
    ] = None,
    target: Annotated[str | None, option("their translations, line by line", "FILE")] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    steps: Annotated[int, option("number of updates to train for", min=1)] = 150,
    change: Annotated[list[str] | None, SETTINGS] = None,
) -> None:
    """Make a model better by corrections of its translations.

    The corrections, the training pairs most like them (where `pellucid remember` stored the model's
    states) and a share of the old text are trained on, from the model as it is. A fifth of the
    corrections is held out. The new model is kept, as DIR/best, if it has more of these right, is
    not worse on dev by the paired test of `pellucid compare`, and translates the sentences of
    --keep as before; otherwise the exit code is 1. DIR/changed.tsv lists what changed in dev and in
    the list, and corrections.jsonl in the new model what came of each correction. After an
    interruption the same command goes on.
    """
    _check_files([corrections, keep, source, target])
    directory, changed = Path(out), Path(out) / "changed.tsv"
    _refuse_other_run(out, directory, changed)

    from pellucid.api import load
    from pellucid.data.formats.units import Sides
    from pellucid.store.manifest_checks import read_languages
    from pellucid.workflows.improvement import (
        Changes,
        dev_pairs_of,
        find_near_pairs,
        leave_out,
        read_corrections,
        sample_old_text,
        write_mixture,
    )

    # What is to be learned, and what the model knows already.
    old = load(model)
    _ = old.bundle.tokenizer.beginning  # raises ValueError for a model that must be told what language to write
    sides, languages = Sides(source_language, target_language), read_languages(old.manifest)
    everything, notes = read_corrections(corrections, sides, _SEED, languages)
    chosen = leave_out(everything, without or (), corrections)
    taught = [correction for correction in chosen if not correction.held_out]
    if not taught:
        raise ValueError(f"{corrections}: no correction is left to train on")
    _refuse_context(old, model)
    runs = _runs_of_old_text(model, source, target, change or ())

    # How the model translates before.
    dev = dev_pairs_of(runs[0])
    listed = [] if keep is None else [line for line in read_sentences(keep) if line.strip()]
    corrected = [correction.source for correction in chosen]
    sources = list(dict.fromkeys(corrected + dev.sources + listed))
    before = _translate(old, sources)

    # The text of the run.
    near = find_near_pairs(old.bundle, taught, before)
    if not any(near):
        notes.append(f"no training pairs like the corrections are mixed in; `pellucid remember {model}` stores them")
    data = write_mixture(
        directory / "data",
        [(correction.source, correction.right) for correction in taught],
        [(text, translation) for pairs in near for _, text, translation in pairs],
        [(line, before[line]) for line in listed],
        sample_old_text(runs, {correction.source for correction in everything}, _SEED),
        dev,
    )

    _train(model, runs[0], data, directory, steps, change or (), notes)

    # The best mixture of old and new weights, kept only if nothing speaks against it.
    unchanged = Changes(chosen, before, before, dev.sources, dev.targets, listed, old.lowercase)
    candidate, changes = _choose_weights(old.directory, directory, unchanged, sources)
    _report(changes, candidate, directory, changed)
    places: dict[int, list[str]] = {}
    for correction, pairs in zip(taught, near, strict=True):
        places[correction.number] = [place for place, *_ in pairs]
    _save(candidate, directory / "best", changes, places, sorted(without or ()))
    write_lines([str(directory / "best")])


def _check_files(paths: Sequence[str | None]) -> None:
    """Raise ValueError or OSError for files that are missing, or can be read only once."""
    from pellucid.data.lines import refuse_read_once

    for path in paths:
        refuse_read_once(path, "an improvement reads its text several times, and again when it goes on")
        if path is not None:
            require_file(path)


def _refuse_other_run(out: str, directory: Path, changed: Path) -> None:
    """Raise ValueError for a directory with anything but a run whose model was not judged yet."""
    is_interrupted = (directory / "data").is_dir() and not changed.exists()
    if directory.exists() and any(directory.iterdir()) and not is_interrupted:
        raise ValueError(f"{out} is not empty; choose another --out")


def _refuse_context(old: "Model", name: str) -> None:
    """Raise ValueError for a model that reads the sentence before: corrections have none."""
    if old.translator.context:
        raise ValueError(
            f"{name} was trained with the sentence before (data.context), which corrections of single sentences would "
            "make it forget; add the corrections to its training text, as documents of their own, and train it again"
        )


def _runs_of_old_text(model: str, source: str | None, target: str | None, change: Sequence[str]) -> "list[RunConfig]":
    """Return the settings of the runs that made the model, or of one for old text that is named."""
    from pellucid.training.defaults import run_settings
    from pellucid.workflows.improvement import find_old_runs

    if source is None:
        return find_old_runs(Path(model))
    settings, _ = run_settings(None, change, start=model, source=source, target=target)
    return [settings]


def _train(
    model: str,
    old_run: "RunConfig",
    data: Mapping[str, Any],
    directory: Path,
    steps: int,
    change: Sequence[str],
    notes: Sequence[str],
) -> None:
    """Train on from a model on the mixture of `data`, in `directory`; a run that is over is left."""
    from pellucid.cli.train import train_unless_finished
    from pellucid.training.defaults import run_settings

    # With the optimiser and the dropout that made the model, a run disturbs it least.
    overrides = [
        *_QUICK,
        f"train.evaluate_every={steps}",
        f"data.max_pieces={old_run.data.max_pieces}",
        f"optim.kind={old_run.optim.kind}",
        f"model.dropout={old_run.model.dropout}",
        *change,
    ]
    pairs = data["corpus"][0].pairs
    settings, reasons = run_settings(None, overrides, source=pairs, start=model, steps=steps)

    # What was corrected is learned, even if a sentence of dev was.
    settings = replace(settings, data=replace(settings.data, **data, allow_overlap=True))
    try:
        say_notes(notes)
        train_unless_finished(settings, directory, reasons)
    except typer.Exit:
        typer.echo(
            f"{directory / 'best'} is not judged yet: to go on, give the same command again",
            err=True,
        )
        raise


def _report(changes: "Changes", candidate: Path, directory: Path, changed: Path) -> None:
    """Write what changed, also into a file; exit with code 1 where the new model is not kept."""
    # What training called best is so by dev alone, and may be the old model.
    shutil.rmtree(directory / "best", ignore_errors=True)
    write_text_whole(changed, "".join(changes.changed_rows()))
    write_lines(changes.report_lines())
    if objections := changes.find_objections():
        typer.echo(f"pellucid: not kept: {'; '.join(objections)}; it is in {candidate}", err=True)
        raise typer.Exit(FAILED)


def _save(
    candidate: Path,
    out: Path,
    changes: "Changes",
    places: Mapping[int, Sequence[str]],
    without: Sequence[int],
) -> None:
    """Move a model to `out`, with its reference, its scores on dev, and what came of each correction."""
    from pellucid.api import load
    from pellucid.decode.request import SearchConfig
    from pellucid.evaluate.reference import ReferenceLine, choose_reference, spread_lines
    from pellucid.workflows.improvement import save_improved

    held_out = sum(correction.held_out for correction in changes.corrections)
    about = {
        "corrections": len(changes.corrections) - held_out,
        "held_out": held_out,
        "without": list(without),
    }
    scores = changes.comparison.scores
    about["dev"] = {name: [scores[name].a.score, scores[name].b.score] for name in ("bleu", "chrf")}
    lines = spread_lines([*changes.dev_sources])
    scored = zip(lines, load(candidate).translate_stream(lines), strict=True)
    reference = choose_reference(ReferenceLine(source, found.text, found.score) for source, found in scored)
    search = {"beam": SearchConfig.beam, "length_penalty": SearchConfig.length_penalty}
    save_improved(candidate, out, changes, places, reference, search, about)


def _choose_weights(
    old: Path,
    directory: Path,
    unchanged: "Changes",
    sources: Sequence[str],
) -> "tuple[Path, Changes]":
    """Mix the old and the trained weights, and return the best of these models with what it changes."""
    from pellucid.api import load
    from pellucid.workflows.improvement import ENOUGH_RIGHT, WEIGHT_PARTS, save_mixed_weights

    tried: list[tuple[Path, Changes]] = []
    for parts in WEIGHT_PARTS:
        candidate = directory / f"candidate-{parts[0]}-{parts[1]}"
        save_mixed_weights(old, directory / "last", parts, candidate)
        changes = replace(unchanged, after=_translate(load(candidate), sources))
        tried.append((candidate, changes))
        right, count = changes.count_met(changes.after, held_out=True)
        if right >= ENOUGH_RIGHT * count and not changes.find_objections():
            break

    # Of the models with the fewest objections the one with the
    # most held-out corrections right; of equals the first.
    return min(
        tried,
        key=lambda found: (
            len(found[1].find_objections()),
            -found[1].count_met(found[1].after, True)[0],
        ),
    )


def _translate(model: "Model", lines: Sequence[str]) -> dict[str, str]:
    translations = show_progress(model.translate_stream(lines, scores=False), total=len(lines))
    return {line: translation.text for line, translation in zip(lines, translations, strict=True)}
