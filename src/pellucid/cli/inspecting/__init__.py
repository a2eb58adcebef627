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
    model,
    neighbours,
    pair,
    positions,
    probes,
    project,
    similar,
    tokens,
)
from pellucid.cli.options import refuse_removed, report_errors

EXAMPLES = """\
  pellucid inspect model runs/demo/best
  pellucid inspect similar runs/demo/best cat dog house
  pellucid inspect positions runs/demo/best --plot positions.png
  pellucid inspect lens runs/demo/best "The ball is blue." --json"""

REMOVED = {
    "logits": "`pellucid explain MODEL SENTENCE` shows the likeliest pieces of each step, and the chapter on logits "
    "(docs/transformer/logits.md) computes the softmax of given numbers",
    "prune": "`pellucid inspect heads --curve bleu` ranks the heads, silences them one after another and shows what "
    "that costs",
}
"""Commands that version 0.1 was the last to have, and what to use instead."""

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
for name, instead in REMOVED.items():
    refuse_removed(app, name, f"`pellucid inspect {name}`", instead)


@app.callback()
def inspect() -> None:
    """Measure what a model has learned: tables, JSON and figures.

    Each command works on any model directory and prints a table to standard output. With --json it writes JSON objects
    instead; with --plot FILE, where there is something to see, it draws a figure. The commands report what this model
    does; another model may do otherwise.
    """
