"""`pellucid prepare`: writes the pairs of a run to disk as ids, for corpora that do not fit into memory."""

from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.options import CLUSTER, CORES, SETTINGS, WORKERS, argument, option

PREPARE_EXAMPLES = """\
  pellucid prepare run.toml --out shards && pellucid train run.toml --set data.shards=shards
  pellucid prepare run.toml --set tokenizer.vocabulary=32000
  pellucid prepare run.toml --corpora 2-4 --tokenizer shards/1 --out shards/2
  pellucid prepare run.toml --out shards --cluster auto"""


def run_prepare(
    run_file: Annotated[str, argument("RUN.toml", "file with the settings of the run")],
    out: Annotated[
        str | None,
        option("directory to write; default: data.shards of the run, or runs/NAME.shards", "DIR"),
    ] = None,
    change: Annotated[list[str] | None, SETTINGS] = None,
    corpora: Annotated[
        str | None,
        option(
            "numbers of the corpora to prepare, of those in the run file: other machines prepare the "
            "rest, and data.shards lists all directories",
            "FIRST-LAST",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        option("take the tokenizer of another part, instead of learning one", "SHARDS"),
    ] = None,
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
) -> None:
    """Read and encode the text of a run once, for long runs.

    Training then maps its ids into memory as needed: with millions of pairs it starts at once and
    takes little memory. The trained model is the same, to the bit. The text is read twice, in
    bounded memory; the vocabulary is learned from a sample of it. A command that was killed
    continues where it stopped. The directory is written to standard output.

    With --cluster, the lines of each corpus are divided among the workers; a corpus that is one
    file of pairs is prepared by one of them. Each corpus gets a directory of its own inside DIR,
    and the list of them, for data.shards, is written to standard output. The vocabulary is learned
    before, here, from all corpora, unless --tokenizer names one. All else is as in `pellucid
    translate --cluster`.
    """
    options = locals()
    from pellucid.cpu import count_processors
    from pellucid.training.config import read_run
    from pellucid.training.shard_writing import prepare_shards

    # It was an option of one process once.
    if workers is not None and cluster is None:
        advice = "without it a thread is begun for each processor that the process may use (taskset)"
        raise ValueError(f"--workers is for --cluster; {advice}")
    settings = read_run(Path(run_file), change or ())
    numbers = None if corpora is None else _read_numbers(corpora, len(settings.data.corpora))
    shards = settings.data.shards if isinstance(settings.data.shards, str) else None
    if out is None and (numbers is not None or settings.data.shard_folders[1:]):
        raise ValueError("a part of the corpora needs a directory of its own: --out DIR")
    directory = Path(out or shards or f"runs/{Path(run_file).stem}.shards")
    if cluster is not None:
        from pellucid.cli.cluster_preparation import prepare_on_cluster

        prepare_on_cluster(settings, directory, numbers, options)
        return

    # Progress goes to standard error: standard output
    # is the directory, for $(pellucid prepare ...).
    prepare_shards(
        settings,
        directory,
        count_processors(),
        lambda message: typer.echo(message, err=True),
        numbers,
        None if tokenizer is None else Path(tokenizer),
    )
    write_lines([str(directory)])


def _read_numbers(text: str, corpora: int) -> range:
    """Return the numbers of corpora that `--corpora` names: one, or the first and the last."""
    words = text.split("-")
    if len(words) <= 2 and all(word.isdecimal() for word in words):
        numbers = range(int(words[0]), int(words[-1]) + 1)
        if numbers and numbers.start >= 1 and numbers.stop <= corpora + 1:
            return numbers
    raise ValueError(
        f"--corpora is {text!r}; write a number, or the first and the last as in 2-4, of the {corpora} "
        "corpora of the run"
    )
