"""`pellucid inspect lens`: the logit lens, which piece each decoder layer would have written."""

from typing import Annotated

from pellucid.cli.files import write_lines, write_objects
from pellucid.cli.options import JSON, MODEL, SENTENCE, TARGET, option
from pellucid.cli.terminal import Terminal, format_blocks

EXAMPLES = """\
  pellucid inspect lens runs/demo/best "The ball is blue."
  pellucid inspect lens runs/demo/best "The ball is blue." --target "La pelota es azul."
  pellucid inspect lens runs/demo/best "The ball is blue." -k 5 --json"""


def run(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    target: Annotated[str | None, TARGET] = None,
    count: Annotated[int, option("likeliest pieces that --json lists of each layer", None, "--count", "-k")] = 3,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show what each decoder layer would say, step by step.

    The state after each layer goes through the model's last norm and output embedding as if that layer were the last
    one; the last row is what the model says. Earlier layers were never trained to be read this way, so take their
    answers as a hint.
    """
    from pellucid.api import load
    from pellucid.inspect.lens import logit_lens, residual_tensors

    loaded = load(model)
    # The trace keeps the residual stream between layers and the logits, nothing else.
    keep = [*residual_tensors(loaded.bundle.model.config).values(), "logits"]
    trace = loaded.trace(sentence, target=target, keep=keep)
    lens = logit_lens(trace, count)
    if json:
        rows = zip(lens.places, lens.rows, strict=True)
        write_objects(
            {
                "place": layer,
                "step": step + 1,
                "reads": lens.inputs[step],
                "written": lens.written[step],
                **vars(cell),
            }
            for layer, row in rows
            for step, cell in enumerate(row)
        )
        return
    write_lines([trace.source.text, f"→ {trace.target.text}", ""])
    columns = []
    for step, (reads, piece) in enumerate(zip(lens.inputs, lens.written, strict=True)):
        layer_cells = [row[step] for row in lens.rows]
        cells = [f"{cell.top[0].piece} {cell.top[0].prob:.2f}" for cell in layer_cells]
        columns.append([str(step + 1), reads, piece, *cells])
    write_lines(format_blocks(columns, ["step", "reads", "writes", *lens.places], Terminal.of_stdout().width))
    # A step is settled at the first layer from which on its piece is the likeliest; None if it never is.
    settled = [layer for layer in lens.settled if layer is not None]
    after = {layer: settled.count(layer) for layer in lens.places if layer in settled}
    words = ", ".join(f"{count} from {layer} on" for layer, count in after.items())
    write_lines(["", f"{len(lens.written)} pieces; what was written is the likeliest for {words or 'none'}"])
