"""`pellucid inspect model`: modules, shapes and parameters of a model, and a picture of it."""

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
        bool, typer.Option("--each", help="list every layer, even if it has the shapes of the one before")
    ] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """List the modules of a model, with their shapes.

    Show every module with its shapes, whether training changes it, and which arrays are shared. All of this, and the
    picture that --plot draws, is read from the loaded weights.
    """
    from pellucid.inspect.anatomy import count_fixed, count_trained, list_arrays, read_architecture
    from pellucid.store.directory import load_bundle

    require_figure(plot)
    loaded = load_bundle(model).model
    arrays = list_arrays(loaded)
    if plot:
        from pellucid.plots.architecture import draw_architecture

        architecture = read_architecture(loaded)
        save_figure(
            plot,
            lambda path: draw_architecture(
                architecture.encoder,
                architecture.decoder,
                path,
                title=f"{model}: {architecture.parameters:,} parameters",
                notes=architecture.shared,
            ),
        )
    if json:
        write_objects({**vars(array), "numbers": array.numbers} for array in arrays)
        return
    rows = [["module", "kind", "array", "shape", "", "numbers"]]
    for array in arrays if each else list(arrays_without_repeats(arrays)):
        # A shared array counts where it stands first, and there is called trained or fixed.
        state = f"is {array.shared_with}" if array.shared_with else "trained" if array.trained else "fixed"
        shape = " × ".join(f"{n:,}" for n in array.shape)
        rows.append(
            [array.module, array.kind, last_name(array), shape, state, f"{array.numbers:,}" if array.numbers else ""]
        )
    # From the last row up, so that each row is still compared with a full one.
    for number in range(len(rows) - 1, 1, -1):
        if rows[number][:2] == rows[number - 1][:2]:
            rows[number][:2] = ["", ""]
    write_table(rows, "lllrlr")
    repeated = [] if each else list(describe_equal_layers(arrays))
    totals = f"{count_trained(arrays):,} parameters, trained; {count_fixed(arrays):,} numbers computed and fixed"
    write_lines(["", *repeated, totals])


def last_name(array: "Array") -> str:
    """Return the name of an array within its module."""
    return array.name.rpartition(".")[2]


def arrays_by_layer(arrays: "Sequence[Array]") -> "Iterator[tuple[tuple[str, str], list[Array]]]":
    """Yield (stack, layer number) and its arrays; arrays outside of layers have ("", module) instead."""

    def layer(array: "Array") -> tuple[str, str]:
        match = re.match(r"(encoder|decoder)\.(\d+)\.", array.name)
        return (match[1], match[2]) if match else ("", array.module)

    # groupby joins neighbours only, and arrays of a layer follow one another.
    for key, group in groupby(arrays, key=layer):
        yield key, list(group)


def layer_signature(arrays: "Sequence[Array]") -> list[tuple]:
    """Return names, shapes and training state of a layer's arrays, without the layer number."""
    return [(re.sub(r"^(\w+)\.\d+\.", r"\1.", array.name), array.shape, array.trained) for array in arrays]


def arrays_without_repeats(every_array: "Sequence[Array]") -> "Iterator[Array]":
    """Yield the arrays without those of layers that have the shapes of the layer before."""
    previous: list[tuple] = []
    for (stack, _), arrays in arrays_by_layer(every_array):
        signature = layer_signature(arrays)
        if not (stack and signature == previous):  # embeddings and norms outside of layers are always listed
            yield from arrays
        previous = signature


def describe_equal_layers(every_array: "Sequence[Array]") -> Iterator[str]:
    """Yield a sentence on each run of layers that have the same shapes."""
    previous: list[tuple] = []
    repeats: dict[str, list[str]] = {}
    first = ""
    for (stack, number), arrays in arrays_by_layer(every_array):
        signature = layer_signature(arrays)
        if stack and signature == previous:
            # The first layer of the run gives its name, however many follow it.
            repeats.setdefault(first, []).append(f"{stack}.{number}")
        else:
            first = f"{stack}.{number}"
        previous = signature
    for name, layers in repeats.items():
        span = layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
        yield f"{span} {'has' if len(layers) == 1 else 'have'} the shapes of {name}"
