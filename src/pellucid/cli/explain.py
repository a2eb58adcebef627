"""`pellucid explain`: one translation, walked through in the terminal, or as one HTML file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import json_line, lines_of, write_lines
from pellucid.cli.options import MODEL, default, meaning

if TYPE_CHECKING:
    from pellucid.decode.alignment import Links
    from pellucid.trace.trace import Trace

EXAMPLES = """\
  pellucid explain runs/demo/best "The ball is blue."
  pellucid explain runs/demo/best "The ball is blue." --html ball.html
  pellucid explain runs/demo/best "The ball is blue." --html ball.html --keep weights
  pellucid explain runs/demo/best "The ball is blue." --target "La pelota es azul."
  pellucid explain runs/demo/best "The ball is blue." --json > ball.json"""


def run(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="what to translate; - is standard input")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="a translation to look at, instead of one that is searched for")
    ] = None,
    beam: Annotated[int, meaning("beam")] = default("beam"),
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the page and its numbers into this one file")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="maps|float16|float32|weights",
            help="what the file keeps: attention patterns and every account (maps, if left out); all tensors, rounded "
            "to float16 or whole; or the weights too",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="write the manifest as one JSON object instead of text")] = False,
) -> None:
    """Every step of one translation, with its numbers.

    Text, pieces and ids; the shape of every tensor; for each step what was likely, what was chosen and why it stopped;
    what each written word attends to; the beam and what it dropped; what adds to each logit; and the checks that these
    numbers passed. With --html the same and more becomes a page in one file, which opens without a network.
    """
    from pellucid.api import load
    from pellucid.decode.config import SearchConfig
    from pellucid.page.blocks import finite
    from pellucid.page.html import KEPT, require_place, save_html, size, whole

    SearchConfig(beam=beam)
    if html:
        require_place(Path(html), keep or KEPT[0])  # what is wrong is said before the model is loaded
    elif keep:
        raise ValueError(f"--keep {keep} says what a file keeps; name one with --html FILE")
    line = only_line() if sentence == "-" else sentence
    trace = load(model).trace(line, target=target, beam=beam)
    if html:
        written = save_html(trace, html, keep or KEPT[0], say=lambda words: typer.echo(words, err=True))
        typer.echo(f"{html}: {size(written)}", err=json)
    if json:
        write_lines([json_line(finite(whole(trace)))])
    elif not html:
        write_lines(told(trace))


def told(trace: "Trace") -> Iterator[str]:
    """The walk through a trace, for the terminal at hand."""
    from pellucid.cli.terminal import Terminal
    from pellucid.cli.walk import walk
    from pellucid.page.html import whole

    return walk(whole(trace), trace.tensor, aligned(trace), Terminal.here())


def aligned(trace: "Trace") -> "Links":
    """Which words belong together."""
    from pellucid.decode.alignment import bare_words, links, piece_alignments, without_end

    assert trace.model is not None
    [norms] = piece_alignments(trace.model, [trace.source.ids], [trace.target.ids])
    sides = trace.source, trace.target
    return links(norms, *(bare_words(each.pieces[: len(without_end(each.ids))], each.text) for each in sides))


def only_line() -> str:
    """The one line of standard input; ValueError for none or several."""
    lines = list(lines_of("-"))
    if len(lines) != 1:
        raise ValueError(f"standard input has {len(lines):,} lines; explain takes one sentence")
    return lines[0]
