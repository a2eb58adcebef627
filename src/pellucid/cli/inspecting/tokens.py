"""`pellucid inspect tokens`: shows how a text is cut into pieces."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import read_sentences, write_lines
from pellucid.cli.inspecting.output import JSON, write_objects
from pellucid.cli.terminal import Terminal, escape_controls, format_blocks, wrap_items

if TYPE_CHECKING:
    from pellucid.inspect.tokens import CutText

EXAMPLES = """\
  pellucid inspect tokens runs/demo/best "Roses are red and violets are blue"
  pellucid inspect tokens runs/demo/best "Las rosas son rojas" --side target --json
  pellucid inspect tokens runs/demo/best/tokenizer.model - < dev.en"""

UNKNOWN = "?"
"""Mark behind the id of a piece that is UNK, or a byte of a character that no piece covers."""


def run(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|TOKENIZER", help="a model directory, or a SentencePiece model file")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="text to cut; - is standard input, line by line")],
    side: Annotated[
        str | None,
        typer.Option(metavar="source|target", help="tokenizer of a model: the one for its source, or for its target"),
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Cut a text into pieces and ids, and put it together again.

    Show the normalised text, if it differs; its pieces (▁ is a space), with the id and the word of each; and the text
    that the ids give when they are put together. Words of many pieces and characters that no piece covers are noted.
    """
    from pellucid.inspect.tokens import count_words_and_pieces, cutter_of_file, cutter_of_tokenizer

    if Path(model).is_file():  # any SentencePiece model, not only those of a model directory
        if side is not None:
            raise ValueError(f"{model} is one tokenizer, with no sides; leave --side out")
        cut = cutter_of_file(model)
    else:
        from pellucid.store.directory import load_bundle

        cut = cutter_of_tokenizer(load_bundle(model).tokenizer, side or "source")
    cuts = []
    for number, line in enumerate(read_sentences("-") if text == "-" else [text]):
        cuts.append(cut_text := cut(line))
        if json:
            write_objects([{**vars(cut_text), "many": cut_text.many_piece_words}])
        else:
            write_lines([*[""] * (number > 0), *cut_lines(cut_text)])
    if len(cuts) > 1 and not json:
        words, pieces, unknown = count_words_and_pieces(cuts)
        mean = f", {pieces / words:.2f} a word" if words else ""
        write_lines(["", f"{len(cuts):,} lines, {words:,} words, {pieces:,} pieces{mean}, {unknown:,} unknown"])


def cut_lines(cut: "CutText") -> Iterator[str]:
    """Yield the lines on one text: pieces, ids, words, and the text put together again."""
    width = Terminal.of_stdout().width
    if cut.normalised != cut.text:
        yield f"normalised: {escape_controls(cut.normalised)}"
    ids = [f"{token}{UNKNOWN * unknown}" for token, unknown in zip(cut.ids, cut.unknown, strict=True)]
    words = ["-" if word is None else str(word + 1) for word in cut.words]
    cells = zip(map(escape_controls, cut.pieces), ids, words, strict=True)
    yield from format_blocks([tuple(column) for column in cells], ["piece", "id", "word"], width)
    yield f"back: {escape_controls(cut.back)}" + ("" if cut.back == cut.text else "   (not what was given)")
    count = len(cut.text.split())
    # Special tokens belong to no word and are not counted.
    pieces = sum(word is not None for word in cut.words)
    yield f"{count} word{'s' * (count != 1)}, {pieces} piece{'s' * (pieces != 1)}"
    for word, number in cut.many_piece_words:
        yield from wrap_items(
            f"{escape_controls(word)!r} became {number} pieces, as rare words do".split(), width, gap=" "
        )
    if any(cut.unknown):
        yield f"{UNKNOWN}: a byte of a character that no piece covers, or the mark for what is unknown"
