"""`pellucid inspect`: commands that measure what a model has learned, in one file for each subject."""

import typer

from pellucid.cli.inspecting import align, attention, heads, length, lens, model, pieces, probes, step, words
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
for name, (command, examples) in {
    "model": (model.show_model, model.MODEL_EXAMPLES),
    "tokens": (pieces.show_tokens, pieces.TOKENS_EXAMPLES),
    "embedding": (pieces.show_embedding, pieces.EMBEDDING_EXAMPLES),
    "similar": (words.show_similarity, words.SIMILARITY_EXAMPLES),
    "neighbours": (words.show_neighbours, words.NEIGHBOURS_EXAMPLES),
    "analogy": (words.show_analogy, words.ANALOGY_EXAMPLES),
    "project": (words.show_projection, words.PROJECTION_EXAMPLES),
    "positions": (model.show_positions, model.POSITIONS_EXAMPLES),
    "lens": (lens.run, lens.EXAMPLES),
    "attention": (attention.show_attention, attention.ATTENTION_EXAMPLES),
    "pair": (attention.show_pair, attention.PAIR_EXAMPLES),
    "probes": (probes.run, probes.EXAMPLES),
    "heads": (heads.run, heads.EXAMPLES),
    "align": (align.run, align.EXAMPLES),
    "length": (length.run, length.EXAMPLES),
    "step": (step.run, step.EXAMPLES),
}.items():
    # \b keeps Click from rewrapping the examples as one paragraph.
    app.command(name, epilog=f"\b\nExamples:\n{examples}")(report_errors(command))
for name, instead in REMOVED.items():
    refuse_removed(app, name, f"`pellucid inspect {name}`", instead)


@app.callback()
def inspect() -> None:
    """Measure what a model has learned: tables, JSON and figures.

    Each command works on any model directory and prints a table to standard output. With --json it writes JSON objects
    instead; with --plot FILE, where there is something to see, it draws a figure. The commands report what this model
    does; another model may do otherwise.
    """
