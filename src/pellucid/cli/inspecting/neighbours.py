"""`pellucid inspect neighbours`: the pieces whose vectors are nearest to a word's."""

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
    count: Annotated[int, typer.Option("--count", "-k", help="number of pieces to show")] = 10,
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Find the pieces whose vectors are most similar to a word's.

    All pieces of the embedding matrix are compared by cosine; the pieces of the word itself are left out.
    """
    from pellucid.inspect.embeddings import embedding_table
    from pellucid.store.directory import load_bundle

    table = embedding_table(load_bundle(model), side)
    results = [(word, table.neighbours(table.vector(word), count, without=word.ids)) for word in table.words(words)]
    if json:
        write_objects({"side": side, "word": word, "neighbours": neighbours} for word, neighbours in results)
        return
    for number, (word, neighbours) in enumerate(results):
        write_lines([*[""] * (number > 0), f"{word.text}: {word.spelled}"])
        rows = [
            [str(rank), neighbour.piece, f"{neighbour.cosine:.3f}"]
            for rank, neighbour in enumerate(neighbours, start=1)
        ]
        write_table([["", "piece", "cosine"], *rows], "rlr", indent="  ")
    chance = table.chance()  # what a cosine has to be compared with
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])
