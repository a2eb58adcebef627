"""`pellucid inspect step`: how strong the optimizer's step is in each direction of a weight matrix."""

from typing import Annotated

from pellucid.cli.files import FIGURES, save_figure, write_lines, write_objects
from pellucid.cli.options import JSON, PLOT, argument, option
from pellucid.cli.terminal import write_table
from pellucid.store.atomic import require_writable

EXAMPLES = """\
  pellucid inspect step runs/demo
  pellucid inspect step runs/demo --tensor decoder.0.cross.qkv.weight
  pellucid inspect step runs/demo/checkpoints/step-00000500 --plot step.png
  pellucid inspect step runs/demo --json"""


def run(
    directory: Annotated[str, argument("RUN", "directory of a run, whose newest checkpoint is read; or a checkpoint")],
    tensor: Annotated[
        str, option("a matrix of a layer, by its name (`pellucid inspect model` lists them)", "NAME")
    ] = "decoder.0.ffn.outer.weight",
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show how strong the optimizer's step is in each direction of a matrix.

    A matrix turns directions of its input into directions of its output, each with a strength, its singular value. The
    running mean of the gradients is strong in few directions, and so are Adam's steps; Muon's step is about equally
    strong in all. Show both for a matrix of a run that was trained: the median strength as a share of the largest, and
    how many of the directions make nine tenths of the sum of squares. A matrix that holds a projection for each head
    has a row for each. --plot draws all strengths.
    """
    from pellucid.train.step_strengths import count_strong_directions, measure_step_strengths

    require_writable(plot, FIGURES)
    checkpoint, kind, blocks = measure_step_strengths(directory, tensor)
    if plot:
        from pellucid.plots.charts import draw_step_strengths

        save_figure(plot, draw_step_strengths, blocks, title=f"{tensor}, {checkpoint.name}, {kind.capitalize()}")
    if json:
        write_objects({"tensor": tensor, "optimizer": kind, **vars(block)} for block in blocks)
        return
    rows = [["", "median of gradient", "of step", "strong in gradient", "in step"]]
    for block in blocks:
        medians = [f"{sorted(side)[len(side) // 2] / (side[0] or 1.0):.3f}" for side in (block.gradient, block.step)]
        strong = [f"{count_strong_directions(side)} of {len(side)}" for side in (block.gradient, block.step)]
        rows.append([block.name, *medians, *strong])
    write_lines(
        [f"{tensor} in {checkpoint.name}: the running mean of its gradients, and the step of {kind.capitalize()}"]
    )
    write_table(rows, "lrrrr")
