"""`pellucid inspect pair`: one score taken apart."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.attention_tables import SIDE, TARGET, WHERE, sentence_lines_of, trace_tensors
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.inspect.query_key_products import QueryKeyPair, QueryKeyPlane

EXAMPLES = """\
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk drank
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk cat --where encoder.2.self --head 3
  pellucid inspect pair runs/demo/best "The ball is blue." azul blue --where decoder.3.cross --plot pair.png"""


def run(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="what is translated")],
    query: Annotated[
        str, typer.Argument(metavar="WORD", help="which word reads; was:2 is the second was, ▁was a piece")
    ],
    key: Annotated[str, typer.Argument(metavar="WORD", help="which word is read")],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[int, typer.Option(metavar="N", help="which head, 0 first")] = 0,
    target: Annotated[str | None, TARGET] = None,
    side: Annotated[str, SIDE] = "output",
    count: Annotated[int, typer.Option("--count", "-k", help="dimensions shown of either sign")] = 5,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Why one word reads another: q · k as cosine, lengths and dimensions.

    A product is large when query and key are long and point the same way; it is the sum of one product for each
    dimension. Divided by sqrt(d_k) it is the score, and softmax over the row makes the weight. --plot draws all queries
    and keys of the sentence as arrows on a plane.
    """
    from pellucid.api import load
    from pellucid.inspect.attention import require_head
    from pellucid.inspect.query_key_products import query_key_plane, take_product_apart

    require_figure(plot)
    if count < 1:
        raise ValueError(f"--count is {count}, it must be 1 or more")
    loaded = load(model)
    require_head(loaded.bundle.model.config, where, head)
    names = [f"{where}.{each}" for each in ("q", "k", "scores", "allowed", "pattern")]
    trace = trace_tensors(loaded, sentence, target, where, names)
    found = take_product_apart(trace, where, head, query, key, side=side)
    if plot:
        draw_plane(found, query_key_plane(trace, where, head, side=side), plot)
    if json:
        write_objects([found])
        return
    write_lines(sentence_lines_of(trace, where))
    write_lines(product_lines(found, count))


def product_lines(found: "QueryKeyPair", count: int) -> Iterator[str]:
    """It as sums and products, one a line."""
    names = f"{found.query} ({found.query_piece})", f"{found.key} ({found.key_piece})"
    yield f"{found.attention}, head {found.head}: {names[0]} reads {names[1]}"
    yield from (f"note: {note}" for note in found.notes)
    yield ""
    yield f"cosine × |q| × |k|   {found.cosine:+.4f} × {found.query_norm:.4f} × {found.key_norm:.4f}"
    yield f"= q · k              {found.product:+.4f}"
    yield f"/ sqrt(d_k)          / sqrt({found.width}) = {found.width**0.5:.4f}"
    yield f"= score              {found.score:+.4f}"
    keys = f"number {found.rank} of {found.keys} that may be read"
    yield f"softmax: weight      {found.weight:.4f}, {keys}; even weights would be {1 / found.keys:.4f}"
    yield ""
    for title, sign in (("add most", 1), ("take most away", -1)):
        largest = [f"dim {d} {value:+.3f}" for d, value in found.largest(count, sign)]
        yield f"of {found.width} dimensions {title}: {', '.join(largest) or 'none'}"


def draw_plane(found: "QueryKeyPair", seen: "QueryKeyPlane", plot: str) -> None:
    """Queries and keys as arrows, the pair in bold."""
    from pellucid.plots.arrows import draw_arrows

    title = f"{found.attention}, head {found.head}: the plane keeps {seen.kept:.0%} of the squared lengths"
    groups = {"queries": (seen.queries, seen.query_labels), "keys": (seen.keys, seen.key_labels)}
    marked = {"queries": found.query_place, "keys": found.key_place}
    save_figure(plot, lambda path: draw_arrows(groups, path, title=title, marked=marked))
