"""`pellucid inspect`: commands that measure what a model has learned, one small file for each."""

import typer

from pellucid.cli.inspecting import (
    align,
    analogy,
    attention,
    embedding,
    heads,
    length,
    lens,
    logits,
    model,
    neighbours,
    pair,
    positions,
    probes,
    project,
    similar,
    tokens,
)
from pellucid.cli.options import report_errors

EXAMPLES = """\
  pellucid inspect model runs/demo/best
  pellucid inspect similar runs/demo/best cat dog house
  pellucid inspect positions runs/demo/best --plot positions.png
  pellucid inspect lens runs/demo/best "The ball is blue." --json"""

app = typer.Typer(
    name="inspect",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=f"\b\nExamples:\n{EXAMPLES}",
)
for name, module in {
    "model": model,
    "tokens": tokens,
    "embedding": embedding,
    "similar": similar,
    "neighbours": neighbours,
    "analogy": analogy,
    "project": project,
    "positions": positions,
    "logits": logits,
    "lens": lens,
    "attention": attention,
    "pair": pair,
    "probes": probes,
    "heads": heads,
    "align": align,
    "length": length,
}.items():
    # \b keeps Click from rewrapping the examples as one paragraph.
    app.command(name, epilog=f"\b\nExamples:\n{module.EXAMPLES}")(report_errors(module.run))


@app.callback()
def inspect() -> None:
    """Measure what a model has learned: tables, JSON and figures.

    Each command works on any model directory and prints a table to standard output. With --json it writes JSON objects
    instead; with --plot FILE, where there is something to see, it draws a figure. The commands report what this model
    does; another model may do otherwise.
    """
