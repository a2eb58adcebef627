"""`pellucid train`: trains a model on sentence pairs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import save_figure, write_lines
from pellucid.cli.next_steps import say_next_steps
from pellucid.cli.options import (
    FAILED,
    SETTINGS,
    SIGNAL_CODES,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    argument,
    file_option,
    flag,
    option,
)

if TYPE_CHECKING:
    from pellucid.training.config import RunConfig
    from pellucid.training.loop import Outcome

TRAIN_EXAMPLES = """\
  pellucid train --source train.en --target train.es --out runs/mine --minutes 20
  pellucid train --source memory.tmx --from en --to de --out runs/mine --minutes 20
  pellucid train recipes/multi30k-en-de.toml --out runs/multi30k --steps 5000
  pellucid train --start runs/mine/best --source mails.en --target mails.es --out runs/mails
  pellucid train --out runs/mine --resume
  model=$(pellucid train run.toml) && pellucid translate "$model" book.en"""


def run_train(
    run_file: Annotated[
        str | None,
        argument("RUN.toml", "file with the settings of the run"),
    ] = None,
    source: Annotated[
        str | None,
        file_option(
            "instead of RUN.toml: source sentences, one per line, plain or .gz; or pairs in one file: .tmx, "
            ".xliff, .po, .csv, .tsv, .jsonl, .zip (OPUS) or .parquet"
        ),
    ] = None,
    target: Annotated[str | None, file_option("their translations, line by line")] = None,
    dev_source: Annotated[
        str | None,
        file_option("sentences to evaluate on; without them, some pairs are held out of training"),
    ] = None,
    dev_target: Annotated[str | None, file_option("their translations")] = None,
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    out: Annotated[
        str | None,
        option("directory of the run; default: runs/ and the name of RUN.toml", "DIR"),
    ] = None,
    size: Annotated[str | None, option("size of the model", "tiny|small|base|big")] = None,
    start: Annotated[
        str | None,
        option(
            "model to continue training from, instead of a new one: one of yours, or an imported one",
            "MODEL",
        ),
    ] = None,
    steps: Annotated[int | None, option("number of updates to train for")] = None,
    minutes: Annotated[
        float | None, option("train for so many minutes instead; the schedule is fitted to them")
    ] = None,
    change: Annotated[list[str] | None, SETTINGS] = None,
    resume: Annotated[
        bool,
        flag(
            "--resume",
            "continue the run in --out where it stopped, with the same result to the bit; begin it if there is none "
            "yet, so that one command serves a machine that may restart",
        ),
    ] = False,
    explain: Annotated[bool, flag("--explain", "say why each setting was chosen that you did not name")] = False,
) -> None:
    """Train a model on sentence pairs.

    Train with the settings in RUN.toml, or on the files that --source and --target name. With
    --start, go on training an existing model, with its own tokenizer and sizes. The run directory
    holds the settings as resolved (run.toml), reports (log.jsonl), their plot (training.png),
    checkpoints, and the models best/, last/ and average/. Ctrl-C saves everything and says how to
    resume, and so do SIGTERM and a terminal that closes, unless the command was started with nohup;
    a second Ctrl-C stops at once. At the end, the command says how good the model is and what to
    do next, and the directory of the best model is written to standard output.
    """
    form = {
        "source": source,
        "target": target,
        "dev_source": dev_source,
        "dev_target": dev_target,
        "source_language": source_language,
        "target_language": target_language,
        "size": size,
        "start": start,
        "steps": steps,
        "minutes": minutes,
    }
    directory = _run_directory(run_file, out, resume)
    if resume and run_file is None and source is None:  # the run directory knows its settings
        run_file = _recorded_run_file(directory)
    from pellucid.training.beginning import refuse_held_directory
    from pellucid.training.defaults import run_settings

    if not resume:  # now, and not after the text was read
        refuse_held_directory(directory)

    # `reasons` tell why settings were chosen for the
    # user, such as the size for the number of pairs.
    settings, reasons = run_settings(
        run_file,
        change or (),
        began=directory if resume else None,
        **form,
    )
    outcome = train_and_plot(settings, directory, resume, reasons, explain)
    say_next_steps(settings, outcome)
    if outcome.first:  # of several workers under torchrun, only one prints
        write_lines([str(outcome.best)])


def _run_directory(run_file: str | None, out: str | None, resume: bool) -> Path:
    """Return the directory of the run.

    Raises ValueError if neither --out nor a run file names one.
    """
    if out is not None:
        return Path(out)
    if run_file is None:
        raise ValueError("--out is missing: name the directory of the run, for example --out runs/mine")

    # `--resume runs/mine/run.toml` names the copy inside
    # the run directory, which is where the run is.
    folder = Path(run_file).parent
    if resume and ((folder / "checkpoints").is_dir() or (folder / "texts.json").is_file()):
        return folder
    return Path("runs") / Path(run_file).stem


def _recorded_run_file(directory: Path) -> str:
    """Return the run file that a run wrote into its directory.

    Raises ValueError if there is none to resume by.
    """
    path = directory / "run.toml"
    if not path.is_file():
        # With checkpoints, these settings resume it; otherwise a new run begins with them.
        found = "settings (run.toml)" if (directory / "checkpoints").is_dir() else "run"
        raise ValueError(
            f"there is no {found} in {directory} to resume, and nothing to train on is named; name the run file, or "
            "--source and --target"
        )
    return str(path)


def train_and_plot(
    settings: "RunConfig",
    directory: Path,
    resume: bool,
    reasons: Sequence[str] = (),
    explain: bool = False,
) -> "Outcome":
    """Train the run and plot its reports.

    Exits with code 1 and one message if it cannot go on, with 129, 130 or 143, as shells do, if a
    signal stopped it.
    """
    from pellucid.training.distributed import TrainingFailed
    from pellucid.training.loop import train_run
    from pellucid.workflows.check.examine import glance_at_corpus

    try:
        outcome = train_run(
            settings,
            directory,
            resume=resume,
            reasons=reasons,
            glance=glance_at_corpus,
            explain=explain,
        )
    except TrainingFailed as error:
        typer.echo(f"pellucid: {error}", err=True)
        raise typer.Exit(FAILED) from None

    if outcome.first:
        from pellucid.interpret.plots.charts import draw_training_curve
        from pellucid.training.log import read_log

        try:
            save_figure(
                directory / "training.png",
                draw_training_curve,
                read_log(directory / "log.jsonl"),
            )
        except ValueError as error:
            typer.echo(f"pellucid: {error}", err=True)

    # A run that a signal stopped has saved everything, but a script must not take it for finished.
    if outcome.stop in SIGNAL_CODES:
        raise typer.Exit(SIGNAL_CODES[outcome.stop])
    return outcome


def train_unless_finished(
    settings: "RunConfig",
    directory: Path,
    reasons: Sequence[str] = (),
) -> None:
    """Train the run, or go on with it where it was interrupted.

    A run that is finished stays as it is.
    """
    if not (directory / "average").is_dir():  # written only when training is over
        train_and_plot(
            settings,
            directory,
            resume=(directory / "run.toml").is_file(),
            reasons=reasons,
        )
