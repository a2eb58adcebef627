"""`pellucid inspect pair`: takes one attention score apart."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.attention_tables import ROW_SIDE, TARGET, WHERE, trace_heading_lines, trace_tensors
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.inspect.query_key_products import QueryKeyPair, QueryKeyPlane

PAIR_EXAMPLES = """\
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk drank
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk cat --where encoder.2.self --head 3
  pellucid inspect pair runs/demo/best "The ball is blue." azul blue --where decoder.3.cross --plot pair.png"""


def show_pair(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="sentence to translate")],
    query: Annotated[
        str, typer.Argument(metavar="WORD", help="word that reads; was:2 is the second was, ▁was a piece")
    ],
    key: Annotated[str, typer.Argument(metavar="WORD", help="word that is read")],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[int, typer.Option(metavar="N", help="head, counted from 0")] = 0,
    target: Annotated[str | None, TARGET] = None,
    side: Annotated[str, ROW_SIDE] = "output",
    count: Annotated[int, typer.Option("--count", "-k", help="dimensions to show of either sign")] = 5,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show why one word reads another, from q · k.

    The product q · k is taken apart into cosine, lengths and dimensions. It is large when query and key are long and
    point the same way; it is the sum of one product for each dimension. Divided by sqrt(d_k) it is the score, and
    softmax over the row makes the weight. --plot draws all queries and keys of the sentence as arrows on a plane.
    """
    from pellucid.api import load
    from pellucid.inspect.attention import require_head
    from pellucid.inspect.query_key_products import query_key_plane, take_product_apart

    require_figure(plot)
    if count < 1:
        raise ValueError(f"--count is {count}, it must be 1 or more")
    loaded = load(model)
    # Wrong names are reported before the search.
    require_head(loaded.bundle.model.config, where, head)
    names = [f"{where}.{tensor}" for tensor in ("q", "k", "scores", "allowed", "pattern")]
    trace = trace_tensors(loaded, sentence, target, where, names)
    pair = take_product_apart(trace, where, head, query, key, side=side)
    if plot:
        draw_plane(pair, query_key_plane(trace, where, head, side=side), plot)
    if json:
        write_objects([pair])
        return
    write_lines(trace_heading_lines(trace, where))
    write_lines(product_lines(pair, count))


def product_lines(pair: "QueryKeyPair", count: int) -> Iterator[str]:
    """Yield the score as sums and products, one per line."""
    names = f"{pair.query} ({pair.query_piece})", f"{pair.key} ({pair.key_piece})"
    yield f"{pair.attention}, head {pair.head}: {names[0]} reads {names[1]}"
    yield from (f"note: {note}" for note in pair.notes)
    yield ""
    yield f"cosine × |q| × |k|   {pair.cosine:+.4f} × {pair.query_norm:.4f} × {pair.key_norm:.4f}"
    yield f"= q · k              {pair.product:+.4f}"
    yield f"/ sqrt(d_k)          / sqrt({pair.width}) = {pair.width**0.5:.4f}"
    yield f"= score              {pair.score:+.4f}"
    # The decoder may not read later positions, so the number of keys depends on the query.
    keys = f"number {pair.rank} of {pair.keys} that may be read"
    yield f"softmax: weight      {pair.weight:.4f}, {keys}; even weights would be {1 / pair.keys:.4f}"
    yield ""
    for title, sign in (("add most", 1), ("take most away", -1)):
        largest = [f"dim {d} {value:+.3f}" for d, value in pair.largest(count, sign)]
        yield f"of {pair.width} dimensions {title}: {', '.join(largest) or 'none'}"


def draw_plane(pair: "QueryKeyPair", plane: "QueryKeyPlane", plot: str) -> None:
    """Draw queries and keys as arrows, those of the pair in bold."""
    from pellucid.plots.arrows import draw_arrows

    # Lengths off the plane are lost: the title says how much of them is kept.
    title = f"{pair.attention}, head {pair.head}: the plane keeps {plane.kept:.0%} of the squared lengths"
    groups = {"queries": (plane.queries, plane.query_labels), "keys": (plane.keys, plane.key_labels)}
    marked = {"queries": pair.query_place, "keys": pair.key_place}
    save_figure(plot, lambda path: draw_arrows(groups, path, title=title, marked=marked))
