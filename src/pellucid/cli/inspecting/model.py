"""`pellucid inspect model`: modules, shapes, parameters, and a picture."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.inspect.anatomy import Array

EXAMPLES = """\
  pellucid inspect model runs/demo/best
  pellucid inspect model runs/demo/best --each
  pellucid inspect model runs/demo/best --plot architecture.svg
  pellucid inspect model runs/demo/best --json"""


def run(
    model: Annotated[str, MODEL],
    each: Annotated[
        bool, typer.Option("--each", help="every layer, also those with the shapes of the one before")
    ] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """What a model is made of.

    Every module with its shapes, whether training changes it, and which arrays are one and the same; read from the
    weights that are loaded, as the picture of --plot is.
    """
    from pellucid.bundle import load_bundle
    from pellucid.inspect.anatomy import count_fixed, count_trained, list_arrays, read_architecture

    require_figure(plot)
    loaded = load_bundle(model).model
    found = list_arrays(loaded)
    if plot:
        from pellucid.plots.architecture import draw_architecture

        drawn = read_architecture(loaded)
        save_figure(
            plot,
            lambda path: draw_architecture(
                drawn.encoder,
                drawn.decoder,
                path,
                title=f"{model}: {drawn.parameters:,} parameters",
                notes=drawn.shared,
            ),
        )
    if json:
        write_objects({**vars(array), "numbers": array.numbers} for array in found)
        return
    rows = [["module", "kind", "array", "shape", "", "numbers"]]
    for array in found if each else list(arrays_told_once(found)):
        state = f"is {array.shared_with}" if array.shared_with else "trained" if array.trained else "fixed"
        shape = " × ".join(f"{n:,}" for n in array.shape)
        rows.append(
            [array.module, array.kind, last_name(array), shape, state, f"{array.numbers:,}" if array.numbers else ""]
        )
    for number in range(len(rows) - 1, 1, -1):
        if rows[number][:2] == rows[number - 1][:2]:
            rows[number][:2] = ["", ""]
    write_table(rows, "lllrlr")
    repeated = [] if each else list(describe_equal_layers(found))
    totals = f"{count_trained(found):,} parameters, trained; {count_fixed(found):,} numbers computed and fixed"
    write_lines(["", *repeated, totals])


def last_name(array: "Array") -> str:
    """The last part of a name."""
    return array.name.rpartition(".")[2]


def arrays_by_layer(found: "Sequence[Array]") -> "Iterator[tuple[tuple[str, str], list[Array]]]":
    """The arrays of each layer, named as its stack and number; what is in no layer has no number."""

    def layer(array: "Array") -> tuple[str, str]:
        match = re.match(r"(encoder|decoder)\.(\d+)\.", array.name)
        return (match[1], match[2]) if match else ("", array.module)

    for key, some in groupby(found, key=layer):
        yield key, list(some)


def layer_signature(arrays: "Sequence[Array]") -> list[tuple]:
    """What a layer looks like, whatever its number."""
    return [(re.sub(r"^(\w+)\.\d+\.", r"\1.", each.name), each.shape, each.trained) for each in arrays]


def arrays_told_once(found: "Sequence[Array]") -> "Iterator[Array]":
    """Without layers that look like the one before."""
    before: list[tuple] = []
    for (stack, _), arrays in arrays_by_layer(found):
        shown = layer_signature(arrays)
        if not (stack and shown == before):
            yield from arrays
        before = shown


def describe_equal_layers(found: "Sequence[Array]") -> Iterator[str]:
    """Which layers look like the one before."""
    before: list[tuple] = []
    like: dict[str, list[str]] = {}
    first = ""
    for (stack, number), arrays in arrays_by_layer(found):
        shown = layer_signature(arrays)
        if stack and shown == before:
            like.setdefault(first, []).append(f"{stack}.{number}")
        else:
            first = f"{stack}.{number}"
        before = shown
    for name, others in like.items():
        several = others[0] if len(others) == 1 else f"{others[0]} to {others[-1]}"
        yield f"{several} {'has' if len(others) == 1 else 'have'} the shapes of {name}"
