"""`pellucid train`: from sentence pairs to a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.errors import FAILED, INTERRUPTED, TERMINATED
from pellucid.cli.files import write_lines

if TYPE_CHECKING:
    from pellucid.train.config import RunConfig
    from pellucid.train.loop import Outcome

EXAMPLES = """\
  pellucid train --source train.en --target train.es --out runs/mine --minutes 20
  pellucid train --source pairs.tsv --out runs/mine --minutes 20
  pellucid train recipes/multi30k-en-de.toml --out runs/multi30k --steps 5000
  pellucid train --start runs/mine/best --source mails.en --target mails.es --out runs/mails
  pellucid train --out runs/mine --resume
  model=$(pellucid train run.toml) && pellucid translate "$model" book.en"""


def run(
    run_file: Annotated[str | None, typer.Argument(metavar="RUN.toml", help="the settings of the run")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="or: sentences to learn from, one a line, plain or .gz; or pairs in one .tsv or .jsonl"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="their translations, line by line")] = None,
    dev_source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="sentences to measure with; left out, some pairs are held out for it"),
    ] = None,
    dev_target: Annotated[str | None, typer.Option(metavar="FILE", help="their translations")] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="directory of the run; left out, runs/ and the name of RUN.toml")
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="tiny|small|base|big", help="size of the model")] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="or the model to go on from: one of yours, or one that was imported"),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="updates to make")] = None,
    minutes: Annotated[float | None, typer.Option(help="or minutes to spend; the schedule is fitted to them")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override any setting; repeatable")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on where the run in --out stopped, to the bit")] = False,
) -> None:
    """Learn a model from sentence pairs.

    Either as RUN.toml says, or from the files that --source and --target name. With --start a model that is there
    learns on from them, with its own tokenizer and sizes. The run directory holds the
    settings as resolved (run.toml), reports (log.jsonl), their plot (training.png), checkpoints, and the models
    best/, last/ and average/. Ctrl-C saves everything and says how to go on; a second one stops at once. When done,
    the directory of the best model is written to standard output.
    """
    form = {
        "source": source,
        "target": target,
        "dev_source": dev_source,
        "dev_target": dev_target,
        "size": size,
        "start": start,
        "steps": steps,
        "minutes": minutes,
    }
    directory = run_directory(run_file, out, resume)
    if resume and run_file is None and source is None:
        run_file = str(directory / "run.toml")
    from pellucid.api import run_settings

    settings, reasons = run_settings(run_file, change or (), began=directory if resume else None, **form)
    outcome = train_and_plot(settings, directory, resume, reasons)
    if outcome.first:
        write_lines([str(outcome.best)])


def run_directory(run_file: str | None, out: str | None, resume: bool) -> Path:
    """Where the run is, or is to be; ValueError if nothing says."""
    if out is not None:
        return Path(out)
    if run_file is None:
        raise ValueError("--out is missing: name the directory of the run, for example --out runs/mine")
    if resume and (Path(run_file).parent / "checkpoints").is_dir():
        return Path(run_file).parent
    return Path("runs") / Path(run_file).stem


def train_and_plot(settings: "RunConfig", directory: Path, resume: bool, reasons: Sequence[str] = ()) -> "Outcome":
    """The run, carried out and plotted.

    Exit code 1 and one message if it cannot go on; 130 or 143, as shells have it, if a signal stopped it.
    """
    from pellucid.train.failures import TrainingFailed
    from pellucid.train.loop import train_run

    try:
        outcome = train_run(settings, directory, resume=resume, reasons=reasons)
    except TrainingFailed as error:
        typer.echo(f"pellucid: {error}", err=True)
        raise typer.Exit(FAILED) from None
    if outcome.first:
        plot_training(directory)
    if outcome.stop in ("SIGINT", "SIGTERM"):
        raise typer.Exit(INTERRUPTED if outcome.stop == "SIGINT" else TERMINATED)
    return outcome


def plot_training(directory: Path) -> Path | None:
    """Draw the reports of a run, and say where."""
    from pellucid.train.log import read_log

    try:
        from pellucid.plots.training import draw_training_curve

        path = directory / "training.png"
        draw_training_curve(read_log(directory / "log.jsonl"), path)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        typer.echo("no plot was drawn, for lack of matplotlib: pip install 'pellucid[plots]'", err=True)
        return None
    typer.echo(f"loss and scores against minutes: {path}", err=True)
    return path
