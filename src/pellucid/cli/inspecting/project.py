"""`pellucid inspect project`: draws word vectors on a map."""

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
        list[str] | None, typer.Argument(metavar="[WORD...]", help="words to show; default: pieces of the vocabulary")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--words", metavar="FILE", help="file of words to show, one per line")
    ] = None,
    count: Annotated[
        int,
        typer.Option(metavar="N", help="without words: show the first N whole words of the vocabulary; 0: all pieces"),
    ] = 500,
    method: Annotated[
        str,
        typer.Option(metavar="pca|tsne|umap", help="projection to use; tsne needs scikit-learn, umap needs umap-learn"),
    ] = "pca",
    dims: Annotated[int, typer.Option(metavar="2|3", help="dimensions of the map")] = 2,
    side: Annotated[str, SIDE] = "source",
    seed: Annotated[int, typer.Option(help="random seed of tsne and umap")] = 1,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the map as an HTML page in one file, with search")
    ] = None,
    tsv: Annotated[
        str | None, typer.Option(metavar="FILE", help="write names, pieces and coordinates, with a header line")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the vectors, as external projectors read them")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Draw embeddings on a map of two or three dimensions.

    Principal components are built in; t-SNE and UMAP must be installed. A map leaves out most of what the vectors hold:
    words near each other on the map are only a hint; `pellucid inspect neighbours` measures how similar they are.
    """
    from pellucid.inspect.embeddings import embedding_table
    from pellucid.inspect.projection import project_vectors, require_known
    from pellucid.store.directory import load_bundle

    require_known(method, dims)  # a package that is missing is named before the model is loaded
    require_figure(plot)
    for path, ending in ((html, ".html"), (tsv, ".tsv"), (vectors, ".tsv")):
        require_figure(path, endings=(ending,))
    if words and file:
        raise ValueError("words are given and a file of them too; leave one out")
    table = embedding_table(load_bundle(model), side)
    # A word that is given twice is one point.
    chosen_words = list(dict.fromkeys(read_words(file) if file else words or []))
    names, spelled, rows = (
        vectors_of_words(table, chosen_words) if chosen_words else vectors_of_first_pieces(table, count)
    )
    projection = project_vectors(rows, method, dims, seed)
    # Only principal components have shares of the variance; the axes of other maps mean nothing and stay unnamed.
    axes = [f"component {n + 1}, {share:.1%}" for n, share in enumerate(projection.shares)] or [""] * dims
    caption = f"{len(names):,} of {len(table.pieces):,} {side} pieces by {method}"
    caption += f", which keeps {sum(projection.shares):.1%} of their variance" if projection.shares else ""
    if plot:
        from pellucid.plots.scatter import draw_scatter

        # A figure is flat: of three dimensions it shows the first two.
        save_figure(plot, lambda path: draw_scatter(projection.places, names, path, title=caption, axes_names=axes[:2]))
    if html:
        from pellucid.page.figures import scatter_html

        text = scatter_html(projection.places, names, title=f"Words of {model}", says=caption)
        write_and_report(html, text)
    letters = "xyz"[:dims]
    if tsv:
        cells = [
            [*words, *format_digits(point)] for *words, point in zip(names, spelled, projection.places, strict=True)
        ]
        write_and_report(tsv, tab_separated([["word", "pieces", *letters], *cells]))
    if vectors:
        write_and_report(vectors, tab_separated(map(format_digits, rows)))
    if json:
        write_objects(
            {"word": name, "pieces": pieces, **dict(zip(letters, point, strict=True))}
            for name, pieces, point in zip(names, spelled, projection.places.tolist(), strict=True)
        )
        return
    write_lines([caption])
    if not (html or tsv or vectors or plot):
        write_lines(
            "\t".join([escape_controls(name), *(f"{number:.4f}" for number in point)])
            for name, point in zip(names, projection.places, strict=True)
        )


def read_words(file: str) -> list[str]:
    """Return the words of a file; raise ValueError if there are none."""
    words = [line.strip() for line in read_sentences(file) if line.strip()]
    if not words:
        raise ValueError(f"{file} has no word")
    return words


def vectors_of_words(table: "Embeddings", words: Sequence[str]) -> "tuple[list[str], list[str], np.ndarray]":
    """Return words, their pieces and their vectors."""
    spelled_words = table.words(words)
    return [word.text for word in spelled_words], [word.spelled for word in spelled_words], table.matrix(spelled_words)


def vectors_of_first_pieces(table: "Embeddings", count: int) -> "tuple[list[str], list[str], np.ndarray]":
    """Return the first pieces that begin a word of two letters or more, or with count 0 all pieces."""
    if count < 0:
        raise ValueError(f"--count is {count}, it must be 0 or more")
    whole = [i for i, piece in enumerate(table.pieces) if len(piece) > 2 and piece.startswith("▁")]
    ids = whole[:count] if count else list(range(len(table.pieces)))
    names = [table.pieces[i] for i in ids]
    return names, names, table.vectors[ids]


def format_digits(numbers: "np.ndarray") -> list[str]:
    """Return numbers with seven significant digits, about as many as a float32 has."""
    return [f"{number:.7g}" for number in numbers]


def tab_separated(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as tab-separated lines."""
    # Escapes keep tabs and line ends inside a word from splitting its cell.
    return "".join("\t".join(escape_controls(cell) for cell in row) + "\n" for row in rows)


def write_and_report(path: str, text: str) -> None:
    """Write a text file, whole or not at all, and report its size."""
    with open_output(path) as write:
        assert write is not None
        write(text)
    typer.echo(f"{path}: {Path(path).stat().st_size:,} bytes", err=True)
