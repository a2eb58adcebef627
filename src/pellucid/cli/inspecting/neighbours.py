"""`pellucid inspect neighbours`: the pieces nearest to a word."""

from typing import Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, write_objects, write_table
from pellucid.cli.inspecting.similar import SIDE
from pellucid.cli.options import MODEL

EXAMPLES = """\
  pellucid inspect neighbours runs/demo/best blue
  pellucid inspect neighbours runs/demo/best blue ▁cat -k 20 --json"""


def run(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str], typer.Argument(metavar="WORD...", help="words, or pieces as the vocabulary writes them (▁red)")
    ],
    count: Annotated[int, typer.Option("--count", "-k", help="how many")] = 10,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """The pieces whose vectors point most nearly the same way.

    Of the whole embedding matrix, by cosine; the pieces of the word itself are left out.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.embeddings import embedding_table

    table = embedding_table(load_bundle(model), side)
    found = [(word, table.neighbours(table.vector(word), count, without=word.ids)) for word in table.words(words)]
    if json:
        write_objects({"side": side, "word": word, "neighbours": near} for word, near in found)
        return
    for number, (word, near) in enumerate(found):
        write_lines([*[""] * (number > 0), f"{word.text}: {word.spelled}"])
        rows = [[str(place), each.piece, f"{each.cosine:.3f}"] for place, each in enumerate(near, start=1)]
        write_table([["", "piece", "cosine"], *rows], "rlr", indent="  ")
    chance = table.chance()
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])
