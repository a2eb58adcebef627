"""`pellucid inspect model` and `positions`: the arrays of a model, a picture of it, and its position vectors."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from pellucid.cli.files import FIGURES, save_figure, write_lines, write_objects
from pellucid.cli.options import JSON, MODEL, PLOT, flag, option
from pellucid.cli.terminal import write_table
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.inspect.anatomy import Array
    from pellucid.inspect.positions import WrongTable

MODEL_EXAMPLES = """\
  pellucid inspect model runs/demo/best
  pellucid inspect model runs/demo/best --each
  pellucid inspect model runs/demo/best --plot architecture.svg
  pellucid inspect model runs/demo/best --json"""


def show_model(
    model: Annotated[str, MODEL],
    each: Annotated[bool, flag("--each", "list every layer, even if it has the shapes of the one before")] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """List the modules of a model, with their shapes.

    Show every module with its shapes, whether training changes it, and which arrays are shared. All of this, and the
    picture that --plot draws, is read from the loaded weights.
    """
    from pellucid.inspect.anatomy import count_fixed, count_trained, list_arrays, read_architecture
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    loaded = load_bundle(model).model
    arrays = list_arrays(loaded)
    if plot:
        from pellucid.plots.architecture import draw_architecture

        architecture = read_architecture(loaded)
        title = f"{model}: {architecture.parameters:,} parameters"
        stacks = architecture.encoder, architecture.decoder
        save_figure(plot, draw_architecture, *stacks, title=title, notes=architecture.shared)
    if json:
        write_objects({**vars(array), "numbers": array.numbers} for array in arrays)
        return
    rows = [["module", "kind", "array", "shape", "", "numbers"]]
    shown, repeats = (arrays, []) if each else _leave_out_repeats(arrays)
    for array in shown:
        # A shared array counts where it stands first, and there is called trained or fixed.
        state = f"is {array.shared_with}" if array.shared_with else "trained" if array.trained else "fixed"
        shape = " × ".join(f"{n:,}" for n in array.shape)
        numbers = f"{array.numbers:,}" if array.numbers else ""
        rows.append([array.module, array.kind, array.name.rpartition(".")[2], shape, state, numbers])
    # From the last row up, so that each row is still compared with a full one.
    for number in range(len(rows) - 1, 1, -1):
        if rows[number][:2] == rows[number - 1][:2]:
            rows[number][:2] = ["", ""]
    write_table(rows, "lllrlr")
    totals = f"{count_trained(arrays):,} parameters, trained; {count_fixed(arrays):,} numbers computed and fixed"
    write_lines(["", *repeats, totals])


def _leave_out_repeats(arrays: "Sequence[Array]") -> "tuple[list[Array], list[str]]":
    """Leave out each layer with the shapes of the one before; return the other arrays, and a sentence on each run."""

    def layer_of(array: "Array") -> tuple[str, str]:
        match = re.match(r"(encoder|decoder)\.(\d+)\.", array.name)
        return (match[1], match[2]) if match else ("", array.module)

    shown: list[Array] = []
    repeats: dict[str, list[str]] = {}
    first, previous = "", list[tuple]()
    # groupby joins neighbours only, and arrays of a layer follow one another.
    for (stack, number), group in groupby(arrays, key=layer_of):
        layer = list(group)
        signature = [(re.sub(r"^(\w+)\.\d+\.", r"\1.", array.name), array.shape, array.trained) for array in layer]
        if stack and signature == previous:  # embeddings and norms outside of layers are always listed
            # The first layer of the run gives its name, however many follow it.
            repeats.setdefault(first, []).append(f"{stack}.{number}")
        else:
            first = f"{stack}.{number}"
            shown += layer
        previous = signature
    sentences = [
        f"{layers[0]} has the shapes of {name}"
        if len(layers) == 1
        else f"{layers[0]} to {layers[-1]} have the shapes of {name}"
        for name, layers in repeats.items()
    ]
    return shown, sentences


POSITIONS_EXAMPLES = """\
  pellucid inspect positions runs/demo/best
  pellucid inspect positions runs/demo/best --text "The sky is blue" --plot positions.png
  pellucid inspect positions runs/demo/best --count 100 --json"""

DISTANCES_SHOWN = (1, 2, 5, 10, 20, 50)
PAPER_D_MODEL = 512  # of the base model in the paper
DIMENSIONS_SHOWN = 6
"""First dimensions that the table shows if there are more than twice as many; two of the last follow."""


def show_positions(
    model: Annotated[str, MODEL],
    count: Annotated[int, option("number of positions", "N")] = 64,
    text: Annotated[str | None, option("show only the positions of this text's pieces", "TEXT")] = None,
    side: Annotated[str, option("positions of the encoder or of the decoder", "source|target")] = "source",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show the position vectors and how they differ.

    Show the table, its wavelengths and the similarity of positions; then, compared with the paper's formula, the table
    that results if code doubles the exponent by mistake, as in an article.
    """
    from pellucid.inspect.pieces import cut_into_pieces
    from pellucid.inspect.positions import (
        compare_with_wrong_table,
        doubled_exponent_table,
        paper_table,
        position_vectors,
        wavelengths,
    )
    from pellucid.store.directory import load_bundle

    require_writable(plot, FIGURES)
    loaded = load_bundle(model)
    pieces = [] if text is None else cut_into_pieces(loaded.tokenizer, text, side).pieces
    if text is not None:
        count = len(pieces)  # --text decides, whatever --count says
    table = position_vectors(loaded.model, count, side)
    width, by_distance = table.values.shape[1], table.by_distance()
    sinusoidal = table.kind in ("sinusoidal", "rotary")
    # Learned positions have no wavelengths.
    waves = wavelengths(width) if sinusoidal else None
    # At the paper's width and at this model's; sines and cosines come in pairs, which an odd width cannot hold.
    comparisons = [
        compare_with_wrong_table(d_model) for d_model in dict.fromkeys((PAPER_D_MODEL, width)) if d_model % 2 == 0
    ]
    if plot:
        from pellucid.plots.charts import draw_positions

        curves = (paper_table(4, width)[3], doubled_exponent_table(4, width)[3]) if width % 2 == 0 else None
        save_figure(plot, draw_positions, table.values, table.similarity, wavelengths=waves, curves=curves)
    if json:
        write_objects(
            [
                {
                    "kind": table.kind,
                    "trained": table.trained,
                    "pieces": pieces or None,
                    "values": table.values,
                    "wavelengths": waves,
                    "cosine_by_distance": by_distance,
                    "first_rise": table.first_rise,
                    "wrong_code": comparisons,
                }
            ]
        )
        return
    write_lines([f"{table.kind} positions, {'trained' if table.trained else 'fixed'}; {width} numbers each", ""])
    ends = range(width) if width <= 2 * DIMENSIONS_SHOWN else [*range(DIMENSIONS_SHOWN), *range(width - 2, width)]
    gap = len(ends) < width  # then a column of dots stands before the last two dimensions
    rows = [["position", *(["piece"] * bool(pieces)), *(f"dim {d}" for d in ends)]]
    for position in range(min(count, 12)):  # --json has them all
        numbers = [f"{table.values[position, d]:.4f}" for d in ends]
        rows.append([str(position), *([pieces[position]] if pieces else []), *numbers])
    if gap:
        # Row 0 holds the heads of the columns.
        rows = [[*row[:-2], "..." if n else "", *row[-2:]] for n, row in enumerate(rows)]
    write_table(rows, "r" + "l" * bool(pieces) + "r" * (len(rows[0]) - 1 - bool(pieces)))
    if waves is not None:
        write_lines(["", f"wavelengths: {waves[0]:.2f} positions (dims 0, 1) to {waves[-1]:,.0f} (the last two)"])
    near = [f"{by_distance[d]:.3f} at {d}" for d in DISTANCES_SHOWN if d < len(by_distance)]
    rise = (
        "never rises" if table.first_rise is None else f"first rises from {table.first_rise - 1} to {table.first_rise}"
    )
    write_lines(["", f"mean cosine of positions by distance: {', '.join(near)}; it {rise}" if near else ""])
    write_lines(line for comparison in comparisons for line in _wrong_table_lines(comparison))


def _wrong_table_lines(wrong: "WrongTable") -> Iterator[str]:
    """Yield lines on the table with a doubled exponent, compared with the paper's."""
    yield ""
    at = f"at d = {wrong.d_model}, position {wrong.position}"
    yield f"10000^(2i/d) with i = 0, 2, 4, ... instead of 10000^(i/d), {at}:"
    yield f"  {wrong.different} of {wrong.entries} entries differ, by up to {wrong.largest:.2f}"
    yield (
        f"  the first is dim {wrong.first_dimension}: {wrong.first_wrong:.6f}, and {wrong.first_right:.6f} by the paper"
    )
    yield (
        f"  longest wavelength {wrong.longest_wavelength_wrong:.3g} positions, and "
        f"{wrong.longest_wavelength_right:.3g} by the paper"
    )
    yield (
        f"  {wrong.nearly_zero_wrong} of {wrong.d_model // 2} sines are below 0.001, and {wrong.nearly_zero_right} by "
        "the paper"
    )
    yield (
        f"  {wrong.constant_wrong} of {wrong.d_model} dims stay within 0.01 over {wrong.positions} positions, and "
        f"{wrong.constant_right} by the paper"
    )
