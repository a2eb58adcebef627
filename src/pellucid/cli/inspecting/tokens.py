"""`pellucid inspect tokens`: how a text is cut into pieces."""

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
"""Stands behind the id of a piece that is the unknown mark, or a byte of a character that no piece covers."""


def run(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|TOKENIZER", help="a model directory, or a SentencePiece model file")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="what is cut; - is standard input, line by line")],
    side: Annotated[
        str | None, typer.Option(metavar="source|target", help="of a model: as it reads, or as it writes")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Pieces and ids of a text, and the text again.

    What the tokenizer makes of the text first, if that is different; its pieces (▁ is a space), the id and the word of
    each; and what the ids give when they are put together. Words of many pieces, and characters that no piece covers,
    are told.
    """
    from pellucid.inspect.tokens import count_words_and_pieces, cutter_of_file, cutter_of_tokenizer

    if Path(model).is_file():
        if side is not None:
            raise ValueError(f"{model} is one tokenizer, with no sides; leave --side out")
        cut = cutter_of_file(model)
    else:
        from pellucid.bundle import load_bundle

        cut = cutter_of_tokenizer(load_bundle(model).tokenizer, side or "source")
    cuts = []
    for number, line in enumerate(read_sentences("-") if text == "-" else [text]):
        cuts.append(found := cut(line))
        if json:
            write_objects([{**vars(found), "many": found.many}])
        else:
            write_lines([*[""] * (number > 0), *cut_lines(found)])
    if len(cuts) > 1 and not json:
        words, pieces, unknown = count_words_and_pieces(cuts)
        mean = f", {pieces / words:.2f} a word" if words else ""
        write_lines(["", f"{len(cuts):,} lines, {words:,} words, {pieces:,} pieces{mean}, {unknown:,} unknown"])


def cut_lines(cut: "CutText") -> Iterator[str]:
    """One text."""
    width = Terminal.of_stdout().width
    if cut.normalised != cut.text:
        yield f"normalised: {escape_controls(cut.normalised)}"
    ids = [f"{number}{UNKNOWN * odd}" for number, odd in zip(cut.ids, cut.unknown, strict=True)]
    words = ["-" if word is None else str(word + 1) for word in cut.words]
    cells = zip(map(escape_controls, cut.pieces), ids, words, strict=True)
    yield from format_blocks([tuple(each) for each in cells], ["piece", "id", "word"], width)
    yield f"back: {escape_controls(cut.back)}" + ("" if cut.back == cut.text else "   (not what was given)")
    count = len(cut.text.split())
    pieces = sum(word is not None for word in cut.words)
    yield f"{count} word{'s' * (count != 1)}, {pieces} piece{'s' * (pieces != 1)}"
    for word, number in cut.many:
        yield from wrap_items(
            f"{escape_controls(word)!r} became {number} pieces, as rare words do".split(), width, gap=" "
        )
    if any(cut.unknown):
        yield f"{UNKNOWN}: a byte of a character that no piece covers, or the mark for what is unknown"
