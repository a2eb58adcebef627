"""`pellucid prepare`: the pairs of a run as ids on the disk, for corpora that memory does not hold."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.files import write_lines

EXAMPLES = """\
  pellucid prepare run.toml --out shards && pellucid train run.toml --set data.shards=shards
  pellucid prepare run.toml --set tokenizer.vocabulary=32000"""


def run(
    run_file: Annotated[str, typer.Argument(metavar="RUN.toml", help="the settings of the run")],
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="where to; left out, data.shards of the run, or runs/, its name and .shards"),
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="override any setting; repeatable")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="threads that cut text into pieces; left out, one for each core")
    ] = None,
) -> None:
    """Turn the text of a run into ids on the disk.

    Training then maps them into memory as it needs them: millions of pairs start at once and take little memory. What
    is trained is the same, to the bit. The text is read twice, in bounded memory; the vocabulary is learned from a
    sample of it. A command that was killed goes on where it stopped when it is given again, and one that is done is
    done at once. The directory is written to standard output.
    """
    from pellucid.train.config import read_run
    from pellucid.train.shard_writing import prepare_shards

    settings = read_run(Path(run_file), change or ())
    directory = Path(out or settings.data.shards or f"runs/{Path(run_file).stem}.shards")
    prepare_shards(settings, directory, workers or count_cores(), lambda message: typer.echo(message, err=True))
    write_lines([str(directory)])


def count_cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
