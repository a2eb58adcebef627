"""`pellucid inspect`: commands that measure what a model has learned, in one file for each subject."""

import typer

from pellucid.cli.inspecting import align, attention, heads, model, probes, words
from pellucid.cli.options import Command, report_errors

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
for name, (command, examples) in {
    "model": (model.show_model, model.MODEL_EXAMPLES),
    "tokens": (words.show_tokens, words.TOKENS_EXAMPLES),
    "embedding": (words.show_embedding, words.EMBEDDING_EXAMPLES),
    "similar": (words.show_similarity, words.SIMILARITY_EXAMPLES),
    "neighbours": (words.show_neighbours, words.NEIGHBOURS_EXAMPLES),
    "analogy": (words.show_analogy, words.ANALOGY_EXAMPLES),
    "project": (words.show_projection, words.PROJECTION_EXAMPLES),
    "positions": (model.show_positions, model.POSITIONS_EXAMPLES),
    "lens": (attention.show_lens, attention.LENS_EXAMPLES),
    "attention": (attention.show_attention, attention.ATTENTION_EXAMPLES),
    "pair": (attention.show_pair, attention.PAIR_EXAMPLES),
    "probes": (probes.show_probes, probes.PROBES_EXAMPLES),
    "heads": (heads.show_heads, heads.HEADS_EXAMPLES),
    "align": (align.show_alignment, align.WORD_ALIGN_EXAMPLES),
    "length": (model.show_lengths, model.LENGTH_EXAMPLES),
    "step": (model.show_step, model.STEP_EXAMPLES),
}.items():
    # \b keeps Click from rewrapping the examples as one paragraph.
    app.command(name, cls=Command, epilog=f"\b\nExamples:\n{examples}")(report_errors(command))


@app.callback()
def inspect() -> None:
    """Measure what a model has learned: tables, JSON and figures.

    Each command works on any model directory and prints a table to standard output. With --json it
    writes JSON objects instead; with --plot FILE, where there is something to see, it draws a
    figure. The commands report what this model does; another model may do otherwise.
    """
