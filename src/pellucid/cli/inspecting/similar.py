"""`pellucid inspect similar`: the cosines between the vectors of words."""

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
    help="embedding to use: of the encoder, of the decoder, or the one that makes logits; tied ones are the same",
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
    """Measure how similar the vectors of words are.

    Show cosines of embeddings: 1 is the same direction, 0 none in common. A word of several pieces is the mean of their
    vectors. Compare with the last line: the cosine of two pieces of this vocabulary on average.
    """
    from pellucid.inspect.embeddings import embedding_table
    from pellucid.store.directory import load_bundle

    require_figure(plot)
    table = embedding_table(load_bundle(model), side)
    spelled_words = table.words(words)
    # `chance` is the cosine of two pieces on average, which the others have to be compared with.
    cosines, chance = table.cosines(spelled_words), table.chance()
    if plot:
        from pellucid.plots.heatmap import draw_heat_map

        names = [word.text for word in spelled_words]
        numbers = [[f"{cosine:.2f}" for cosine in row] for row in cosines]
        title = "Cosines of embeddings"
        save_figure(
            plot,
            lambda path: draw_heat_map(
                cosines, path, title=title, rows=names, columns=names, signed=True, high=1.0, cells=numbers
            ),
        )
    if json:
        write_objects([{"side": side, "words": spelled_words, "cosines": cosines, "chance": chance}])
        return
    rows = [
        [word.text, word.spelled, *(f"{cosine:.3f}" for cosine in row)]
        for word, row in zip(spelled_words, cosines, strict=True)
    ]
    write_table([["word", "pieces", *(word.text for word in spelled_words)], *rows], "ll" + "r" * len(spelled_words))
    write_lines(["", f"two pieces of this vocabulary: {chance.mean:.3f} on average, deviation {chance.deviation:.3f}"])
