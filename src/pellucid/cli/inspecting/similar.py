"""`pellucid inspect similar`: the cosines of given words."""

from typing import Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table
from pellucid.cli.options import MODEL

EXAMPLES = """\
  pellucid inspect similar runs/demo/best red blue cat
  pellucid inspect similar runs/demo/best ▁red ▁blue --json
  pellucid inspect similar runs/demo/best red blue cat dog --plot similar.svg"""

SIDE = typer.Option(
    metavar="source|target|output",
    help="which embedding: of the encoder, of the decoder, or the one that makes logits; tied ones are the same",
)


def run(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str], typer.Argument(metavar="WORD...", help="words, or pieces as the vocabulary writes them (▁red)")
    ],
    side: Annotated[str, SIDE] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """How similar the vectors of words are.

    Cosines of embeddings: 1 is the same direction, 0 none in common. A word of several pieces is the mean of their
    vectors. Compare with the last line: what two pieces of this vocabulary have on average.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.embeddings import embedding_table

    require_figure(plot)
    table = embedding_table(load_bundle(model), side)
    found = table.words(words)
    cosines, chance = table.cosines(found), table.chance()
    if plot:
        from pellucid.plots.heatmap import draw_heat_map

        names = [word.text for word in found]
        numbers = [[f"{each:.2f}" for each in row] for row in cosines]
        title = "Cosines of embeddings"
        save_figure(
            plot,
            lambda path: draw_heat_map(
                cosines, path, title=title, rows=names, columns=names, signed=True, high=1.0, cells=numbers
            ),
        )
    if json:
        write_objects([{"side": side, "words": found, "cosines": cosines, "chance": chance}])
        return
    rows = [
        [word.text, word.spelled, *(f"{each:.3f}" for each in row)] for word, row in zip(found, cosines, strict=True)
    ]
    write_table([["word", "pieces", *(word.text for word in found)], *rows], "ll" + "r" * len(found))
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])
