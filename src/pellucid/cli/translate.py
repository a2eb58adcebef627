"""`pellucid translate`: one line in, one line out, in the same order."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import existing, json_line, lines_of, named, write_lines
from pellucid.cli.options import JSON, MODEL, PRECISION, default, meaning
from pellucid.cli.progress import counted

if TYPE_CHECKING:
    from pellucid.decode.translate import Translation

EXAMPLES = """\
  echo "The ball is blue." | pellucid translate runs/demo/best
  pellucid translate runs/demo/best book.en.gz > book.es
  pellucid translate runs/demo/best book.en --n-best 4 --json
  pellucid translate runs/demo/best book.en --method sample --temperature 0.7"""


def run(
    model: Annotated[str, MODEL],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="sentences, one a line, plain or .gz; - is standard input")
    ] = "-",
    beam: Annotated[int, meaning("beam")] = default("beam"),
    n_best: Annotated[int, meaning("n_best")] = default("n_best"),
    batch: Annotated[int, meaning("batch")] = default("batch"),
    length_penalty: Annotated[float, meaning("length_penalty")] = default("length_penalty"),
    max_extra: Annotated[int, meaning("max_extra")] = default("max_extra"),
    method: Annotated[str, meaning("method", metavar="beam|greedy|sample")] = default("method"),
    temperature: Annotated[float, meaning("temperature")] = default("temperature"),
    top_k: Annotated[int, meaning("top_k")] = default("top_k"),
    top_p: Annotated[float, meaning("top_p")] = default("top_p"),
    seed: Annotated[int, meaning("seed")] = default("seed"),
    precision: Annotated[str, PRECISION] = "float32",
    json: Annotated[bool, JSON] = False,
) -> None:
    """One line in, one line out.

    Translations come in the order of the lines, in bounded memory. An empty line becomes an empty line. Nothing is
    cut: a line too long for the model is an error that names it. A line feed, carriage return or NUL inside a
    translation is written as a space.

    With --n-best N, the N best of each line are written as "number ||| text ||| score", counted from 0 and best first,
    as Moses does. With --json each line becomes {"text", "score", "stop", "pieces", "alternatives"}: the score it was
    ranked by, and "eos" where the model ended the sentence, "length" where the limit did, "empty" for an empty line.
    """
    search = {
        "beam": beam,
        "n_best": n_best,
        "batch": batch,
        "length_penalty": length_penalty,
        "max_extra": max_extra,
        "method": method,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }
    from pellucid.api import load
    from pellucid.decode.config import SearchConfig

    SearchConfig(**search)  # what is wrong with the options or the file is said before the model is loaded
    existing(file)
    loaded = load(model, precision)
    block = 1 if file == "-" and sys.stdin.isatty() else 2048
    with named(file):
        translations = counted(loaded.translate_stream(lines_of(file), block=block, **search))
        write_lines(as_json(translations) if json else as_n_best(translations) if n_best > 1 else as_text(translations))


def as_text(translations: "Iterable[Translation]") -> Iterator[str]:
    """The best translation of each line."""
    return (translation.text for translation in translations)


def as_n_best(translations: "Iterable[Translation]") -> Iterator[str]:
    """All translations of each line, in the form of Moses."""
    for number, translation in enumerate(translations):
        for each in (translation, *translation.alternatives):
            yield f"{number} ||| {each.text} ||| {each.score:.6f}"


def as_json(translations: "Iterable[Translation]") -> Iterator[str]:
    """An object for each line."""
    for translation in translations:
        others = [described(each) for each in translation.alternatives]
        yield json_line({**described(translation), "alternatives": others})


def described(translation: "Translation") -> dict[str, Any]:
    """What `--json` says of one translation."""
    return {
        "text": translation.text,
        "score": translation.score,
        "stop": translation.stop,
        "pieces": translation.pieces,
    }
