"""`pellucid inspect project`: a map of words."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import open_output, read_sentences, write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.inspecting.similar import SIDE
from pellucid.cli.options import MODEL
from pellucid.cli.terminal import escape_controls

if TYPE_CHECKING:
    import numpy as np

    from pellucid.inspect.embeddings import Embeddings

EXAMPLES = """\
  pellucid inspect project runs/demo/best --html words.html
  pellucid inspect project runs/demo/best red blue green cat dog horse --plot words.png
  pellucid inspect project runs/demo/best --method umap --dims 3 --html words.html
  pellucid inspect project runs/demo/best --tsv words.tsv --vectors vectors.tsv"""


def run(
    model: Annotated[str, MODEL],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD...]", help="which; if left out, the pieces of the vocabulary")
    ] = None,
    file: Annotated[str | None, typer.Option("--words", metavar="FILE", help="which, one a line")] = None,
    count: Annotated[
        int, typer.Option(metavar="N", help="of the vocabulary the first N whole words; 0: all pieces")
    ] = 500,
    method: Annotated[
        str, typer.Option(metavar="pca|tsne|umap", help="tsne needs scikit-learn, and umap umap-learn")
    ] = "pca",
    dims: Annotated[int, typer.Option(metavar="2|3", help="of the map")] = 2,
    side: Annotated[str, SIDE] = "source",
    seed: Annotated[int, typer.Option(help="of tsne and umap")] = 1,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the map as one HTML page, with search")
    ] = None,
    tsv: Annotated[
        str | None, typer.Option(metavar="FILE", help="write names, pieces and places, a head first")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the vectors too, as external projectors read them")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Embeddings on a map of two or three dimensions.

    Principal components need nothing more; t-SNE and UMAP must be installed. A map leaves out most of what the
    vectors hold: near on the map is a hint, and `pellucid inspect neighbours` measures it.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.embeddings import embedding_table
    from pellucid.inspect.projection import project_vectors, require_known

    require_known(method, dims)
    require_figure(plot)
    for path, ending in ((html, ".html"), (tsv, ".tsv"), (vectors, ".tsv")):
        require_figure(path, endings=(ending,))
    if words and file:
        raise ValueError("words are given and a file of them too; leave one out")
    table = embedding_table(load_bundle(model), side)
    asked = list(dict.fromkeys(read_words(file) if file else words or []))
    names, spelled, rows = vectors_of_words(table, asked) if asked else vectors_of_first_pieces(table, count)
    made = project_vectors(rows, method, dims, seed)
    axes = [f"component {n + 1}, {share:.1%}" for n, share in enumerate(made.shares)] or [""] * dims
    says = f"{len(names):,} of {len(table.pieces):,} {side} pieces by {method}"
    says += f", which keeps {sum(made.shares):.1%} of their variance" if made.shares else ""
    if plot:
        from pellucid.plots.scatter import draw_scatter

        save_figure(plot, lambda path: draw_scatter(made.places, names, path, title=says, axes_names=axes[:2]))
    if html:
        from pellucid.page.scatter import scatter_html

        text = scatter_html(made.places, names, title=f"Words of {model}", says=says)
        write_and_report(html, text)
    letters = "xyz"[:dims]
    if tsv:
        cells = [[*words, *format_digits(place)] for *words, place in zip(names, spelled, made.places, strict=True)]
        write_and_report(tsv, tab_separated([["word", "pieces", *letters], *cells]))
    if vectors:
        write_and_report(vectors, tab_separated(map(format_digits, rows)))
    if json:
        write_objects(
            {"word": name, "pieces": pieces, **dict(zip(letters, place, strict=True))}
            for name, pieces, place in zip(names, spelled, made.places.tolist(), strict=True)
        )
        return
    write_lines([says])
    if not (html or tsv or vectors or plot):
        write_lines(
            "\t".join([escape_controls(name), *(f"{number:.4f}" for number in place)])
            for name, place in zip(names, made.places, strict=True)
        )


def read_words(file: str) -> list[str]:
    """The words of a file; ValueError for none."""
    found = [line.strip() for line in read_sentences(file) if line.strip()]
    if not found:
        raise ValueError(f"{file} has no word")
    return found


def vectors_of_words(table: "Embeddings", words: Sequence[str]) -> "tuple[list[str], list[str], np.ndarray]":
    """Words with their pieces and their vectors."""
    found = table.words(words)
    return [word.text for word in found], [word.spelled for word in found], table.matrix(found)


def vectors_of_first_pieces(table: "Embeddings", count: int) -> "tuple[list[str], list[str], np.ndarray]":
    """The first pieces that begin a word and have a letter, or all pieces there are."""
    if count < 0:
        raise ValueError(f"--count is {count}, it must be 0 or more")
    whole = [i for i, piece in enumerate(table.pieces) if len(piece) > 2 and piece.startswith("▁")]
    ids = whole[:count] if count else list(range(len(table.pieces)))
    names = [table.pieces[i] for i in ids]
    return names, names, table.vectors[ids]


def format_digits(numbers: "np.ndarray") -> list[str]:
    """As many as a float32 has."""
    return [f"{number:.7g}" for number in numbers]


def tab_separated(rows: Iterable[Sequence[str]]) -> str:
    """Lines of cells; a cell stays one, on one line."""
    return "".join("\t".join(escape_controls(cell) for cell in row) + "\n" for row in rows)


def write_and_report(path: str, text: str) -> None:
    """Whole or not at all."""
    with open_output(path) as write:
        assert write is not None
        write(text)
    typer.echo(f"{path}: {Path(path).stat().st_size:,} bytes", err=True)
