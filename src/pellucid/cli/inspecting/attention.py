"""`pellucid inspect attention`, `pair` and `lens`: one sentence, as attention and decoder layers read it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pellucid.cli.files import FIGURES, save_figure, write_report
from pellucid.cli.inspecting.study_views import Column, column_lines, row_objects
from pellucid.cli.options import (
    CONTEXT,
    JSON,
    LANGUAGE_TO_WRITE,
    MODEL,
    PLOT,
    SENTENCE,
    TARGET,
    argument,
    flag,
    option,
)
from pellucid.cli.terminal import (
    Terminal,
    escape_controls,
    format_blocks,
    text_width,
    wrap_items,
)
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    import numpy as np

    from pellucid.api import Model
    from pellucid.interpret.studies.attention_tables import (
        AttentionSum,
        AttentionTable,
        QueryKeyPair,
        ReadingDistances,
        SumTerm,
    )
    from pellucid.interpret.studies.lens import Lens
    from pellucid.interpret.trace.session import Trace

WHERE = option("attention to look into, by its name in a trace: encoder.0.self, decoder.3.cross", "NAME")

ATTENTION_EXAMPLES = """\
  pellucid inspect attention runs/demo/best "The ball is blue."
  pellucid inspect attention runs/demo/best "The ball is blue." --where decoder.2.cross --head 1 --plot cross.png
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --stage scores
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --word blue
  pellucid inspect attention runs/demo/best "The ball is blue." --where encoder.3.self --stage rollout"""

LARGEST_ERROR = 1e-4
"""Largest error of a sum of weights, which should be 1: many times what float32 rounds."""


def show_attention(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[str, option("one head, counted from 0, or the mean of all", "N|mean")] = "mean",
    stage: Annotated[
        str,
        option(
            "show q k^T as it is; divided by sqrt(d_k); after softmax, the weights; how much of each input a position "
            "has after all layers up to this one; or how far every layer of this stack reads",
            "products|scores|pattern|rollout|distances",
        ),
    ] = "pattern",
    word: Annotated[
        str | None,
        option("show only this word's row, as a sum of vectors; was:2 is the second was", "WORD"),
    ] = None,
    target: Annotated[str | None, TARGET] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    context: Annotated[str, CONTEXT] = "",
    side: Annotated[
        str,
        option(
            "row of a target word in cross-attention: of the position that writes it, or reads it",
            "output|input",
        ),
    ] = "output",
    pieces: Annotated[bool, flag("--pieces", "show pieces, not words")] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show which word reads which, in numbers.

    Each row is a word that reads, each column a word that is read. If a word has several pieces,
    their columns are added and their rows are averaged, so rows still sum to 1. Scores of pieces do
    not add up to a score of their word, so products and scores are shown piece by piece. The
    decoder's self-attention has no cells for words that are not written yet.
    """
    from pellucid.api import load
    from pellucid.interpret.studies import attention_tables

    require_writable(plot, FIGURES)
    # Options are checked before the model is loaded.
    number = _parse_head(head)
    _refuse_options_of_other_views(stage, number, word, plot)
    loaded = load(model, target_language=language)

    # A wrong name is reported before the search.
    attention_tables.require_head(loaded.bundle.model.config, where, None)

    stack = where.partition(".")[0]
    tensors = ("products", "scores", "pattern", "allowed", "v", "head_output", "output")
    names = [f"{where}.{tensor}" for tensor in tensors]
    if stage in (
        "rollout",
        "distances",
    ):  # both need the self-attention of every layer of the stack
        names = [f"{stack}.*.self.pattern", f"{stack}.*.self.allowed"]

    trace = _trace_tensors(loaded, sentence, target, where, names, context)
    heading = _trace_heading_lines(trace, where)

    if stage == "distances":
        distances = attention_tables.reading_distances(trace, stack)
        write_report(json, distances, [*heading, *_distance_lines(distances)])
        return
    if word is not None:
        row = attention_tables.attention_row_as_sum(
            trace,
            where,
            word,
            number,
            side=side,
            pieces=pieces,
        )
        objects = row_objects([row], attention=where, head=number)
        write_report(json, objects, [*heading, *_sum_lines(row, where, number)])
        return

    if stage == "rollout":
        table = attention_tables.rollout_table(trace, where, pieces=pieces)
    else:
        table = attention_tables.attention_table(
            trace,
            where,
            number,
            stage=stage,
            side=side,
            pieces=pieces,
        )

    _require_sums_of_one(table)
    if plot:
        _draw_table(table, plot)
    texts = [trace.source.text]
    if stack != "encoder":  # the encoder reads no translation
        texts.append(trace.target.text)
    write_report(json, [{**vars(table), "texts": texts}], [*heading, *_table_lines(table, pieces)])


def _refuse_options_of_other_views(
    stage: str,
    head: int | None,
    word: str | None,
    plot: str | None,
) -> None:
    """Raise ValueError for an option that does not go with what shall be shown."""
    if word is not None and (plot or stage != "pattern"):
        other = "--plot" if plot else "--stage"
        raise ValueError(f"--word does not go with {other}; leave one out")
    if stage in ("rollout", "distances") and head is not None:
        raise ValueError(f"--stage {stage} does not go with --head; leave one out")
    if stage == "distances" and plot:
        raise ValueError("--stage distances does not go with --plot; leave one out")


def _parse_head(head: str) -> int | None:
    """Return the number of a head, or None for the mean of all."""
    if head == "mean":
        return None
    # isdigit alone lets other scripts' digits pass, and int
    # refuses numbers of thousands of digits in its own words.
    if not head.isascii() or not head.isdigit() or len(head) > 6:
        raise ValueError(f"--head is {head!r:.40}, it must be a number, 0 for the first head, or mean")
    return int(head)


def _require_sums_of_one(table: "AttentionTable") -> None:
    """Raise ValueError for rows of weights that do not sum to 1, so that no wrong table is shown."""
    if table.stage in ("pattern", "rollout"):
        worst = max(table.sums, key=lambda total: abs(total - 1))
        if not abs(worst - 1) < LARGEST_ERROR:  # written so that NaN is refused too
            raise ValueError(
                f"{table.attention}: a row of weights sums to {worst:.6f}, and should sum to 1; are "
                "the model's weights all numbers? If they are, this is a fault of pellucid"
            )


def _describe_table(table: "AttentionTable") -> str:
    """Return the title of the table: attention, head and stage."""
    from pellucid.interpret.studies.attention_tables import STAGES

    if table.stage == "rollout":
        rule = "heads averaged, half of each layer's input kept, layers multiplied"
        return f"rollout up to {table.attention}: {rule}"
    head = "mean of all heads" if table.head is None else f"head {table.head}"
    return f"{table.attention}, {head}: {table.stage} ({STAGES[table.stage]})"


def _table_lines(table: "AttentionTable", pieces: bool) -> Iterator[str]:
    """Yield the table below its title, and what is to be known to read it."""
    weights = table.stage in ("pattern", "rollout")
    yield _describe_table(table)
    yield ""
    digits = 3 if weights else 2
    yield from _format_matrix(table.rows, table.columns, table.values, digits, sums=weights)
    yield ""

    if weights:
        yield f"each row sums to 1, to within {abs(table.sums - 1).max():.1e}"
    # The user asked for words, by not asking for pieces, and gets pieces.
    if not weights and not pieces:
        not_words = "do not add up to those of their word, as weights do"
        yield f"piece by piece: {table.stage} of pieces {not_words}"
    if table.stage == "rollout":
        ignored = "how much each layer really mixes and what the values hold"
        yield f"rollout is a rule of thumb: it ignores {ignored}"


def _draw_table(table: "AttentionTable", plot: str) -> None:
    """Draw the table as a heat map with its numbers.

    Entries that cannot exist, which are NaN, stay empty.
    """
    from pellucid.interpret.plots.figure import draw_heat_map

    weights = table.stage in ("pattern", "rollout")
    cells = []
    for row in table.values:
        cells.append(["" if value != value else f"{value:.2f}" for value in row])
    save_figure(
        plot,
        draw_heat_map,
        table.values,
        title=_describe_table(table).partition(":")[0],
        rows=table.rows,
        columns=table.columns,
        row_name="reads",
        column_name="is read",
        signed=not weights,
        absent=True,
        # Weights share one scale, so that figures of different heads can be compared.
        high=1.0 if weights else None,
        cells=cells,
    )


def _sum_lines(row_sum: "AttentionSum", where: str, head: int | None) -> Iterator[str]:
    """Yield the terms of the sum that a row is, their total, and how far it is from what the model has."""
    from pellucid.interpret.studies.attention_tables import SumTerm

    heads = "all heads, through W_O" if head is None else f"head {head}"
    yield f"{where}, {heads}: what {row_sum.row} reads is a sum of vectors, weight × value"
    yield ""

    weights = sum(term.weight for term in row_sum.terms)
    shares = sum(term.share for term in row_sum.terms)
    total = SumTerm("sum", weights, None, row_sum.norm, shares)
    columns = list(SUM_COLUMNS)
    if head is None:  # the values of all heads together have no single length
        columns = [column for column in columns if column.head != "|value|"]
    yield from column_lines([*row_sum.terms, total], columns)
    yield ""

    compared = "output, its bias left out," if head is None else "head_output"
    yield (
        f"|sum| is less than the sum of lengths, for vectors point different ways; the model's "
        f"{compared} differs from this sum by {row_sum.error:.1e} at most"
    )


SUM_COLUMNS: "Sequence[Column[SumTerm]]" = (
    Column("", lambda term: term.label, side="l"),
    Column("weight", lambda term: term.weight, ".4f"),
    Column("|value|", lambda term: "" if term.value is None else term.value, ".3f"),
    Column("|weight × value|", lambda term: term.norm, ".4f"),
    Column("share of the sum", lambda term: term.share, "+.4f"),
)


def _distance_lines(distances: "Sequence[ReadingDistances]") -> Iterator[str]:
    """Yield the distances of each attention, head by head."""
    columns = [Column["ReadingDistances"]("", lambda layer: layer.attention, side="l")]
    for head in range(len(distances[0].heads)):
        columns.append(Column(f"head {head}", lambda layer, head=head: layer.heads[head], ".2f"))
    columns.append(Column("mean", lambda layer: layer.mean, ".2f"))
    columns.append(Column("even weights", lambda layer: layer.even, ".2f"))
    yield from column_lines(distances, columns)
    yield ""
    yield ("pieces between what reads and what is read, weighted by attention; special tokens are left out")


CELLS_SHOWN = 6
"""Largest numbers of a row that are shown where the table does not fit."""


def _trace_tensors(
    loaded: "Model",
    sentence: str,
    target: str | None,
    where: str,
    names: Sequence[str],
    context: str = "",
) -> "Trace":
    """Return a trace that keeps these tensors."""
    # The encoder does not depend on the translation: an empty one saves the search.
    is_of_encoder = target is None and where.startswith("encoder")
    forced_target = "" if is_of_encoder else target
    # With a target that the user gave, the line is read whole.
    segment = 1 if target is None else None
    return loaded.trace(
        sentence,
        target=forced_target,
        keep=names,
        context=context,
        segment=segment,
    )


def _trace_heading_lines(trace: "Trace", where: str) -> list[str]:
    """Return the lines above a table: the sentence and, for the decoder, its translation."""
    part = trace.facts.part
    lines = [trace.source.text]
    if not where.startswith("encoder"):
        lines.append(f"→ {trace.target.text}")
    if part is not None:
        lines.append(f"(part {part.segment} of the {len(part.segments)} of this text)")
    return [*lines, ""]


def _format_matrix(
    rows: Sequence[str], heads: Sequence[str], values: "np.ndarray", digits: int, *, sums: bool
) -> Iterator[str]:
    """Yield a table with empty cells for NaN; if it is too wide, each row's largest numbers."""
    import numpy as np

    def format_entry(value: float) -> str:
        return f"{value:.{digits}f}" if np.isfinite(value) else ""

    columns = [Column[int]("", lambda row: rows[row], side="l")]
    for number, head in enumerate(heads):
        columns.append(Column(head, lambda row, number=number: format_entry(values[row, number])))
    if sums:
        columns.append(Column("sum", lambda row: np.nansum(values[row]), f".{digits}f"))

    lines = list(column_lines(range(len(rows)), columns))

    terminal = Terminal.of_stdout()
    # A file or a pipe gets the whole table, however wide it is.
    if not terminal.colour or max(map(text_width, lines)) <= terminal.width:
        yield from lines
        return

    for name, row in zip(rows, values, strict=True):
        readable = [n for n in range(len(row)) if np.isfinite(row[n])]
        largest = sorted(readable, key=lambda n: -row[n])[:CELLS_SHOWN]
        numbers = [f"{escape_controls(heads[n])} {row[n]:.{digits}f}" for n in largest]
        yield from wrap_items([f"{escape_controls(name)}:", *numbers], terminal.width)


PAIR_EXAMPLES = """\
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk drank
  pellucid inspect pair runs/demo/best "The ball is blue." azul blue --where decoder.3.cross --json"""


DIMENSIONS_OF_PRODUCT = 5
"""Dimensions of either sign that are shown of a product."""


def show_pair(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    query: Annotated[
        str,
        argument("WORD", "word that reads; was:2 is the second was, ▁was a piece"),
    ],
    key: Annotated[str, argument("WORD", "word that is read")],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[int, option("head, counted from 0", "N")] = 0,
    target: Annotated[str | None, TARGET] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show why one word reads another, from q · k.

    The product q · k is taken apart into cosine, lengths and dimensions. It is large when query and
    key are long and point the same way; it is the sum of one product for each dimension. Divided by
    sqrt(d_k) it is the score, and softmax over the row makes the weight.
    """
    from pellucid.api import load
    from pellucid.interpret.studies.attention_tables import require_head, take_product_apart

    loaded = load(model, target_language=language)
    # Wrong names are reported before the search.
    require_head(loaded.bundle.model.config, where, head)
    names = [f"{where}.{tensor}" for tensor in ("q", "k", "scores", "allowed", "pattern")]
    trace = _trace_tensors(loaded, sentence, target, where, names)
    pair = take_product_apart(trace, where, head, query, key)
    write_report(json, [pair], [*_trace_heading_lines(trace, where), *_product_lines(pair)])


def _product_lines(pair: "QueryKeyPair") -> Iterator[str]:
    """Yield the score as sums and products, one per line."""
    names = f"{pair.query} ({pair.query_piece})", f"{pair.key} ({pair.key_piece})"
    yield f"{pair.attention}, head {pair.head}: {names[0]} reads {names[1]}"
    yield from (f"note: {note}" for note in pair.notes)
    yield ""
    yield f"cosine × |q| × |k|   {pair.cosine:+.4f} × {pair.query_norm:.4f} × {pair.key_norm:.4f}"
    yield f"= q · k              {pair.product:+.4f}"
    yield f"/ sqrt(d_k)          / sqrt({pair.width}) = {pair.width**0.5:.4f}"
    yield f"= score              {pair.score:+.4f}"

    # The decoder may not read later positions, so the number of keys depends on the query.
    keys = f"number {pair.rank} of {pair.keys} that may be read"
    even = f"even weights would be {1 / pair.keys:.4f}"
    yield f"softmax: weight      {pair.weight:.4f}, {keys}; {even}"
    yield ""
    for title, sign in (("add most", 1), ("take most away", -1)):
        dimensions = pair.largest(DIMENSIONS_OF_PRODUCT, sign)
        largest = [f"dim {d} {value:+.3f}" for d, value in dimensions]
        yield f"of {pair.width} dimensions {title}: {', '.join(largest) or 'none'}"


LENS_EXAMPLES = """\
  pellucid inspect lens runs/demo/best "The ball is blue."
  pellucid inspect lens runs/demo/best "The ball is blue." --target 'La pelota es azul.'"""


def show_lens(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    target: Annotated[str | None, TARGET] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show what each decoder layer would say, step by step.

    The state after each layer goes through the model's last norm and output embedding as if that
    layer were the last one; the last row is what the model says. Earlier layers were never trained
    to be read this way, so take their answers as a hint.
    """
    from pellucid.api import load
    from pellucid.interpret.studies.lens import logit_lens, residual_tensors

    loaded = load(model, target_language=language)
    # The trace keeps the residual stream between layers and the logits, nothing else.
    keep = [*residual_tensors(loaded.bundle.model.config).values(), "logits"]
    trace = loaded.trace(sentence, target=target, keep=keep)
    lens = logit_lens(trace)
    objects = []
    for layer, cells in zip(lens.places, lens.rows, strict=True):
        for step, cell in enumerate(cells):
            pieces = {"reads": lens.inputs[step], "written": lens.written[step]}
            objects.append({"place": layer, "step": step + 1, **pieces, **vars(cell)})

    write_report(json, objects, [*_trace_heading_lines(trace, "decoder"), *_lens_lines(lens)])


def _lens_lines(lens: "Lens") -> Iterator[str]:
    """Yield a table: the piece each layer would write at each step, and since which layer it is written."""
    columns = []
    for step, (reads, piece) in enumerate(zip(lens.inputs, lens.written, strict=True)):
        tops = [row[step].top[0] for row in lens.rows]
        would_write = [f"{top.piece} {top.prob:.2f}" for top in tops]
        columns.append([str(step + 1), reads, piece, *would_write])

    heads = ["step", "reads", "writes", *lens.places]
    yield from format_blocks(columns, heads, Terminal.of_stdout().width)

    # A step is settled at the first layer from which on its piece is the likeliest.
    settled = []
    for layer in lens.places:
        if layer in lens.settled:
            settled.append(f"{lens.settled.count(layer)} from {layer} on")

    words = ", ".join(settled) or "none"
    yield ""
    yield f"{len(lens.written)} pieces; what was written is the likeliest for {words}"
