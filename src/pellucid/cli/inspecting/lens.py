"""`pellucid inspect lens`: what each layer of the decoder would have written."""

from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL
from pellucid.cli.terminal import Terminal, escape_controls, format_blocks

if TYPE_CHECKING:
    from pellucid.inspect.lens import Lens

EXAMPLES = """\
  pellucid inspect lens runs/demo/best "The ball is blue."
  pellucid inspect lens runs/demo/best "The ball is blue." --target "La pelota es azul." --plot lens.png
  pellucid inspect lens runs/demo/best "The ball is blue." -k 5 --json"""


def run(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="what is translated")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="a translation to look at, instead of one that is searched for")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-k", help="pieces that --json lists")] = 3,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """What each decoder layer would say, step by step.

    The state after each layer goes through the model's last norm and output embedding as if that layer were the last
    one; the last row is what the model says. Earlier layers were never trained to be read so: take it as a hint.
    """
    from pellucid.api import load
    from pellucid.inspect.lens import logit_lens, residual_tensors

    require_figure(plot)
    loaded = load(model)
    keep = [*residual_tensors(loaded.bundle.model.config).values(), "logits"]
    trace = loaded.trace(sentence, target=target, keep=keep)
    found = logit_lens(trace, count)
    if plot:
        draw_lens(found, plot, f"What each layer would say: {trace.target.text}")
    if json:
        rows = zip(found.places, found.rows, strict=True)
        write_objects(
            {
                "place": place,
                "step": step + 1,
                "reads": found.inputs[step],
                "written": found.written[step],
                **vars(each),
            }
            for place, row in rows
            for step, each in enumerate(row)
        )
        return
    write_lines([trace.source.text, f"→ {trace.target.text}", ""])
    columns = []
    for step, (reads, written) in enumerate(zip(found.inputs, found.written, strict=True)):
        said = [row[step] for row in found.rows]
        cells = [f"{escape_controls(each.top[0].piece)} {each.top[0].prob:.2f}" for each in said]
        columns.append([str(step + 1), escape_controls(reads), escape_controls(written), *cells])
    write_lines(format_blocks(columns, ["step", "reads", "writes", *found.places], Terminal.of_stdout().width))
    settled = [place for place in found.settled if place is not None]
    after = {place: settled.count(place) for place in found.places if place in settled}
    words = ", ".join(f"{count} from {place} on" for place, count in after.items())
    write_lines(["", f"{len(found.written)} pieces; what was written is the likeliest for {words or 'none'}"])


def draw_lens(found: "Lens", plot: str, title: str) -> None:
    """The likeliest piece of each layer, coloured by its probability."""
    import numpy as np

    from pellucid.plots.heatmap import draw_heat_map

    values = np.array([[each.top[0].prob for each in row] for row in found.rows])
    words = [[each.top[0].piece for each in row] for row in found.rows]
    save_figure(
        plot,
        lambda path: draw_heat_map(
            values,
            path,
            title=title,
            rows=found.places,
            columns=found.inputs,
            column_name="reads",
            high=1.0,
            cells=words,
        ),
    )
