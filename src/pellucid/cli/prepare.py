"""`pellucid prepare`: writes the pairs of a run to disk as ids, for corpora that do not fit into memory."""

from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.options import SETTINGS, argument, option

PREPARE_EXAMPLES = """\
  pellucid prepare run.toml --out shards && pellucid train run.toml --set data.shards=shards
  pellucid prepare run.toml --set tokenizer.vocabulary=32000"""


def run_prepare(
    run_file: Annotated[str, argument("RUN.toml", "file with the settings of the run")],
    out: Annotated[
        str | None,
        option("directory to write; default: data.shards of the run, or runs/NAME.shards", "DIR"),
    ] = None,
    change: Annotated[list[str] | None, SETTINGS] = None,
) -> None:
    """Read and encode the text of a run once, for long runs.

    Training then maps its ids into memory as needed: with millions of pairs it starts at once and
    takes little memory. The trained model is the same, to the bit. The text is read twice, in
    bounded memory; the vocabulary is learned from a sample of it. If the command was killed, run it
    again to continue where it stopped; if everything is prepared, it ends at once. The directory is
    written to standard output.
    """
    from pellucid.cpu import count_processors
    from pellucid.training.config import read_run
    from pellucid.training.shard_writing import prepare_shards

    settings = read_run(Path(run_file), change or ())
    directory = Path(out or settings.data.shards or f"runs/{Path(run_file).stem}.shards")
    # Progress goes to standard error: standard output
    # is the directory, for $(pellucid prepare ...).
    prepare_shards(
        settings,
        directory,
        count_processors(),
        lambda message: typer.echo(message, err=True),
    )
    write_lines([str(directory)])
