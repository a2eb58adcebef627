"""`pellucid translate`: translates a file line by line, in the same order."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import (
    json_line,
    name_file_in_errors,
    open_output,
    read_parallel_lines,
    read_sentences,
    require_file,
    show_progress,
    write_lines,
)
from pellucid.cli.options import DEVICE, ENGINE, EXPORTED, JSON, MODEL, PRECISIONS, TERMS, search_default, search_option

if TYPE_CHECKING:
    from pellucid.decode.lines import Translation

EXAMPLES = """\
  echo "The ball is blue." | pellucid translate runs/demo/best
  pellucid translate runs/demo/best book.en.gz > book.es
  pellucid translate runs/demo/best book.en --n-best 4 --json
  pellucid translate runs/demo/best book.en --terms glossary.tsv --alignments book.align > book.es
  pellucid translate runs/demo/best book.en --with runs/other/best
  pellucid translate runs/demo/best book.en --method sample --temperature 0.7"""


def run(
    model: Annotated[str, MODEL],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="sentences to translate, one per line, plain or .gz; - is standard input"),
    ] = "-",
    beam: Annotated[int, search_option("beam")] = search_default("beam"),
    n_best: Annotated[int, search_option("n_best")] = search_default("n_best"),
    batch: Annotated[int, search_option("batch")] = search_default("batch"),
    length_penalty: Annotated[float, search_option("length_penalty")] = search_default("length_penalty"),
    max_extra: Annotated[int, search_option("max_extra")] = search_default("max_extra"),
    method: Annotated[str, search_option("method", metavar="beam|greedy|sample")] = search_default("method"),
    temperature: Annotated[float, search_option("temperature")] = search_default("temperature"),
    top_k: Annotated[int, search_option("top_k")] = search_default("top_k"),
    top_p: Annotated[float, search_option("top_p")] = search_default("top_p"),
    seed: Annotated[int, search_option("seed")] = search_default("seed"),
    too_long: Annotated[str, search_option("too_long", metavar="split|refuse")] = search_default("too_long"),
    repetition: Annotated[str, search_option("repetition", metavar="retry|keep")] = search_default("repetition"),
    markup: Annotated[str, search_option("markup", metavar="keep|text")] = search_default("markup"),
    terms: Annotated[str | None, TERMS] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="beginnings of the translations: a text for each line, or an empty line"),
    ] = None,
    alignments: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="write word alignments: 0-0 1-2 ..., each a source word and a target word"),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="MODEL", help="another model to translate with, together with this one; can be repeated"
        ),
    ] = None,
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    block: Annotated[
        int | None,
        typer.Option(min=1, help="lines read and translated together; default: 2048, or 1 at a keyboard"),
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Translate a file line by line.

    Translations come in the order of the lines, in bounded memory. A blank line stays as it is, and so do white space,
    tabs and emoji around a sentence. Nothing is cut: a line too long for the model is translated sentence by sentence.
    Tags go where their words went; placeholders such as {name}, URLs and addresses stay as they are. A carriage return
    or NUL inside a translation is written as a space.

    With --n-best N, the N best translations of each line are written as "number ||| text ||| score", with lines counted
    from 0 and the best first, as Moses does.

    With --json each line becomes {"text", "score", "stop", "pieces", "notes", "alternatives"}. The score is the one
    translations are ranked by. "stop" is "eos" where the model ended the sentence, "length" where the limit did,
    "empty" for a blank line, and "failed" for a line that could not be translated as asked and stays as it is; standard
    error gives its number and the reason. "notes" tell of anything unusual, such as "split into 3 parts".
    """
    options = locals()  # those of a search have the names of its settings
    from pellucid.api import load
    from pellucid.decode.request import SearchConfig

    search: dict[str, Any] = {
        field.name: options[field.name] for field in fields(SearchConfig) if field.name in options
    }
    # A greedy search is faster where nobody reads the scores.
    search |= {"alignments": alignments is not None, "scores": json or n_best > 1}
    SearchConfig(**search)  # mistakes in the options or the file are reported before the model is loaded
    require_file(file)  # the stream opens it only when the first line is asked for
    terminology = None
    if terms is not None:
        from pellucid.decode.terms.glossary import Terms

        terminology = Terms.read(terms)
    prefixes = None if prefix is None else read_parallel_lines(prefix, file)
    # At a keyboard, each line is answered before the next is typed.
    block = block or (1 if file == "-" and sys.stdin.isatty() else 2048)
    workers = 1 if block == 1 else None  # one sentence at a time is quicker with one CTranslate2 worker
    loaded = load(model, precision, engine, others=others or (), exported=exported, workers=workers, device=device)
    with name_file_in_errors(file), open_output(alignments) as align:
        translations = loaded.translate_stream(
            read_sentences(file), block=block, terms=terminology, prefixes=prefixes, **search
        )
        stream = _write_alignments(show_progress(translations), align)
        write_lines(
            translations_as_json(stream)
            if json
            else translations_as_n_best(stream)
            if n_best > 1
            else translations_as_text(stream)
        )


def _write_alignments(
    translations: "Iterable[Translation]", write: Callable[[str], Any] | None
) -> "Iterator[Translation]":
    """Yield the translations, writing the alignment of each on the way, in the Pharaoh format."""
    for translation in translations:
        if write is not None:
            # A line without links writes an empty line, so that line numbers agree.
            write(" ".join(f"{i}-{j}" for i, j in translation.alignment or []) + "\n")
        yield translation


def translations_as_text(translations: "Iterable[Translation]") -> Iterator[str]:
    """Yield the best translation of each line."""
    return (translation.text for translation in translations)


def translations_as_n_best(translations: "Iterable[Translation]") -> Iterator[str]:
    """Yield all translations of each line, in the format of Moses."""
    for number, translation in enumerate(translations):
        for candidate in (translation, *translation.alternatives):
            yield f"{number} ||| {candidate.text} ||| {candidate.score:.6f}"


def translations_as_json(translations: "Iterable[Translation]") -> Iterator[str]:
    """Yield a JSON object for each line."""
    for translation in translations:
        alternatives = [_translation_object(alternative) for alternative in translation.alternatives]
        yield json_line({**_translation_object(translation), "alternatives": alternatives})


def _translation_object(translation: "Translation") -> dict[str, Any]:
    """Return one translation as `--json` writes it."""
    return {
        "text": translation.text,
        # The score of a failed line is NaN, which JSON does not know.
        "score": None if translation.stop == "failed" else translation.score,
        "stop": translation.stop,
        "pieces": translation.pieces,
        "notes": list(translation.notes),
        **({} if translation.alignment is None else {"alignment": translation.alignment}),
    }
