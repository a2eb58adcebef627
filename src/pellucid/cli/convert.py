"""`pellucid convert`: converts pairs from one format into another, with an account of every pair."""

from typing import Annotated

import typer

from pellucid.cli.options import (
    CLUSTER,
    CORES,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    WORKERS,
    argument,
    file_option,
)
from pellucid.cli.pair_conversion import convert_files

CONVERT_EXAMPLES = """\
  pellucid convert memory.tmx train.en train.de
  pellucid convert memory.tmx pairs.jsonl --from en --to de --places account.tsv
  pellucid convert train.en.gz train.de.gz memory.tmx
  pellucid convert table.csv pairs.tsv --from "Source text" --to "Translation (de)"
  pellucid convert Books.de-en.zip - --from en --to de | shuf > shuffled.tsv
  pellucid convert 'memories/*.tmx' 'train/*.en' 'train/*.de' --cluster auto"""


def run_convert(
    files: Annotated[
        list[str],
        argument(
            "IN OUT",
            "a file of pairs, or a source and a target, a sentence a line; then the same again, to write",
        ),
    ],
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    target_language: Annotated[str | None, TARGET_LANGUAGE] = None,
    places: Annotated[
        str | None,
        file_option("also write a line for each pair: kept, or why not, a tab, and its place in IN"),
    ] = None,
    cluster: Annotated[str | None, CLUSTER] = None,
    workers: Annotated[int | None, WORKERS] = None,
    cores: Annotated[int, CORES] = 1,
) -> None:
    """Convert pairs from one format into another.

    The ending of a name tells the format: .tmx (translation memory), .xlf and .xliff (XLIFF 1.2 or
    2; 1.2 is written), .tbx (a term base), .po, .csv, .tsv, .jsonl (with "source" and "target", or
    "translation" as Hugging Face has it), .json (an array of such objects), .parquet, and, to read
    only, .xlsx (the first sheet), .zip (two files NAME.en and NAME.de, as OPUS packs them) and
    Tatoeba's exports (.tsv). Any other ending is plain text, and each language goes into the file
    that bears its name: train.es, train.es.txt. All but .xlsx, .zip and .parquet may be compressed:
    .gz, .xz or .bz2 behind the ending. - is TSV on standard input or output.

    What holds no translation is left out and counted, with the first places; inline codes of other
    programs (tags) are removed, and line feeds inside a sentence become spaces.

    With --cluster, IN and OUT may be patterns in quotes: each file that IN names is given to one
    worker, and the text in place of its star stands in place of the star of OUT. All else is as in
    `pellucid translate --cluster`.
    """
    inputs, outputs = _split_names(files)
    if cluster is not None:
        from pellucid.cli.cluster_conversion import convert_on_cluster

        convert_on_cluster(inputs, outputs, locals())
        return

    names = " and ".join("standard input" if name == "-" else name for name in inputs)
    _, (first, *more) = convert_files(inputs, outputs, (source_language, target_language), places)
    for line in (f"{names}{first}", *more):
        typer.echo(line, err=True)


def _split_names(files: list[str]) -> tuple[list[str], list[str]]:
    """Return the names of one or two files to read, and of one or two files to write."""
    from pellucid.data.corpus import holds_pairs, refuse_foreign_table

    for name in files:
        refuse_foreign_table(name)

    def is_whole(name: str) -> bool:
        return name == "-" or holds_pairs(name)

    inputs = files[:1] if files and is_whole(files[0]) else files[:2]
    outputs = files[len(inputs) :]
    if len(outputs) != (1 if outputs and is_whole(outputs[0]) else 2) or (len(outputs) == 2 and is_whole(outputs[1])):
        raise ValueError(
            f"{' '.join(files)}: expected what to read and then what to write, each a file of pairs (.tmx, .xliff, "
            ".tbx, .po, .csv, .tsv, .jsonl, .json, .parquet; to read also .xlsx and .zip), or two files of sentences"
        )
    if len(set(files)) < len(files) and files != ["-", "-"]:
        raise ValueError(f"{' '.join(files)}: one file is named twice")
    return inputs, outputs
