"""`pellucid inspect attention` and `pair`: the weights of one attention on one sentence, and one score taken apart."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pellucid.cli.files import FIGURES, save_figure, write_lines, write_objects
from pellucid.cli.options import CONTEXT, JSON, MODEL, PLOT, SENTENCE, TARGET, argument, flag, option
from pellucid.cli.terminal import Terminal, escape_controls, format_table, text_width, wrap_items, write_table
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    import numpy as np

    from pellucid.api import Model
    from pellucid.inspect.attention import AttentionSum, AttentionTable, QueryKeyPair
    from pellucid.trace.session import Trace

WHERE = option("attention to look into, by its name in a trace: encoder.0.self, decoder.3.cross", "NAME")
ROW_SIDE = option(
    "row of a target word in cross-attention: of the position that writes it, or reads it",
    "output|input",
)

ATTENTION_EXAMPLES = """\
  pellucid inspect attention runs/demo/best "The ball is blue."
  pellucid inspect attention runs/demo/best "The ball is blue." --where decoder.2.cross --head 1 --plot cross.png
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --stage scores
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --word blue
  pellucid inspect attention runs/demo/best "The ball is blue." --where decoder.3.self --json > self.json
  pellucid inspect attention runs/demo/best "The ball is blue." --where encoder.3.self --rollout"""

LARGEST_ERROR = 1e-4
"""Largest error of a sum of weights, which should be 1: many times what float32 rounds."""


def show_attention(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[str, option("one head, counted from 0, or the mean of all", "N|mean")] = "mean",
    stage: Annotated[
        str,
        option("show q k^T as it is; divided by sqrt(d_k); or after softmax, the weights", "products|scores|pattern"),
    ] = "pattern",
    word: Annotated[
        str | None, option("show only this word's row, as a sum of vectors; was:2 is the second was", "WORD")
    ] = None,
    target: Annotated[str | None, TARGET] = None,
    context: Annotated[str, CONTEXT] = "",
    side: Annotated[str, ROW_SIDE] = "output",
    pieces: Annotated[bool, flag("--pieces", "show pieces, not words")] = False,
    rollout: Annotated[
        bool, flag("--rollout", "show how much of each input a position has after all layers up to this one")
    ] = False,
    distances: Annotated[bool, flag("--distances", "show instead how far every layer of this stack reads")] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show which word reads which, in numbers.

    Each row is a word that reads, each column a word that is read. If a word has several pieces, their columns are
    added and their rows are averaged, so rows still sum to 1. Scores of pieces do not add up to a score of their word,
    so products and scores are shown piece by piece. The decoder's self-attention has no cells for words that are not
    written yet.
    """
    from pellucid.api import load
    from pellucid.inspect import attention

    require_writable(plot, FIGURES)
    number = _parse_head(head)
    # Options are checked before the model is loaded.
    _refuse_together(
        word, rollout, distances, {"--plot": plot, "--head": number is not None, "--stage": stage != "pattern"}
    )
    loaded = load(model)
    # A wrong name is reported before the search.
    attention.require_head(loaded.bundle.model.config, where, None)
    stack = where.partition(".")[0]
    tensors = ("products", "scores", "pattern", "allowed", "v", "head_output", "output")
    names = [f"{where}.{tensor}" for tensor in tensors]
    if rollout or distances:  # both need the self-attention of every layer of the stack
        names = [f"{stack}.*.self.pattern", f"{stack}.*.self.allowed"]
    trace = _trace_tensors(loaded, sentence, target, where, names, context)
    if distances:
        _write_distances(trace, stack, json)
        return
    if word is not None:
        row = attention.attention_row_as_sum(trace, where, word, number, side=side, pieces=pieces)
        _write_sum(trace, row, where, number, json)
        return
    if rollout:
        table = attention.rollout_table(trace, where, pieces=pieces)
    else:
        table = attention.attention_table(trace, where, number, stage=stage, side=side, pieces=pieces)
    _require_sums_of_one(table)
    if plot:
        _draw_table(table, plot)
    if json:
        # The encoder reads no translation.
        texts = [trace.source.text] if stack == "encoder" else [trace.source.text, trace.target.text]
        write_objects([{**vars(table), "texts": texts}])
    else:
        write_lines(_table_lines(table, trace, pieces))


def _parse_head(head: str) -> int | None:
    """Return the number of a head, or None for the mean of all."""
    if head == "mean":
        return None
    # isdigit alone lets other scripts' digits pass, and int refuses numbers of thousands of digits in its own words.
    if not head.isascii() or not head.isdigit() or len(head) > 6:
        raise ValueError(f"--head is {head!r:.40}, it must be a number, 0 for the first head, or mean")
    return int(head)


def _refuse_together(word: str | None, rollout: bool, distances: bool, options: dict[str, object]) -> None:
    modes = [
        name for name, is_given in (("--word", word), ("--rollout", rollout), ("--distances", distances)) if is_given
    ]
    if len(modes) > 1:
        raise ValueError(f"{' and '.join(modes)} ask for different things; leave one out")
    unused = {"--word": ("--plot", "--stage"), "--rollout": ("--head", "--stage")}
    for name in modes:
        for other in unused.get(name, tuple(options)):  # --distances goes with none of them
            if options[other]:
                raise ValueError(f"{name} does not go with {other}; leave one out")


def _require_sums_of_one(table: "AttentionTable") -> None:
    """Raise ValueError for rows of weights that do not sum to 1, so that no wrong table is shown."""
    if table.stage in ("pattern", "rollout"):
        worst = max(table.sums, key=lambda total: abs(total - 1))
        if not abs(worst - 1) < LARGEST_ERROR:  # written so that NaN is refused too
            raise ValueError(
                f"{table.attention}: a row of weights sums to {worst:.6f}, and should sum to 1; are the model's "
                "weights all numbers? If they are, this is a fault of pellucid"
            )


def _describe_table(table: "AttentionTable") -> str:
    """Return the title of the table: attention, head and stage."""
    from pellucid.inspect.attention import STAGES

    if table.stage == "rollout":
        return f"rollout up to {table.attention}: heads averaged, half of each layer's input kept, layers multiplied"
    head = "mean of all heads" if table.head is None else f"head {table.head}"
    return f"{table.attention}, {head}: {table.stage} ({STAGES[table.stage]})"


def _table_lines(table: "AttentionTable", trace: "Trace", pieces: bool) -> Iterator[str]:
    weights = table.stage in ("pattern", "rollout")
    yield from _trace_heading_lines(trace, table.attention)
    yield _describe_table(table)
    yield ""
    yield from _format_matrix(table.rows, table.columns, table.values, 3 if weights else 2, sums=weights)
    yield ""
    if weights:
        yield f"each row sums to 1, to within {abs(table.sums - 1).max():.1e}"
    if not weights and not pieces:  # the user asked for words, by not asking for pieces, and gets pieces
        yield f"piece by piece: {table.stage} of pieces do not add up to those of their word, as weights do"
    if table.stage == "rollout":
        yield "rollout is a rule of thumb: it ignores how much each layer really mixes and what the values hold"


def _draw_table(table: "AttentionTable", plot: str) -> None:
    """Draw the table as a heat map with its numbers; entries that cannot exist, which are NaN, stay empty."""
    from pellucid.plots.figure import draw_heat_map

    weights = table.stage in ("pattern", "rollout")
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
        cells=[["" if value != value else f"{value:.2f}" for value in row] for row in table.values],
    )


def _write_sum(trace: "Trace", row_sum: "AttentionSum", where: str, head: int | None, json: bool) -> None:
    if json:
        write_objects([{"attention": where, "head": head, **vars(row_sum)}])
        return
    write_lines(_trace_heading_lines(trace, where))
    heads = "all heads, through W_O" if head is None else f"head {head}"
    write_lines([f"{where}, {heads}: what {row_sum.row} reads is a sum of vectors, weight × value", ""])
    values = head is not None  # the values of all heads together have no single length
    rows = [["", "weight", *(["|value|"] if values else []), "|weight × value|", "share of the sum"]]
    for term in row_sum.terms:
        length = [f"{term.value:.3f}"] if values else []
        rows.append([term.label, f"{term.weight:.4f}", *length, f"{term.norm:.4f}", f"{term.share:+.4f}"])
    blank = [""] if values else []
    shares, weights = (sum(getattr(term, name) for term in row_sum.terms) for name in ("share", "weight"))
    rows.append(["sum", f"{weights:.4f}", *blank, f"{row_sum.norm:.4f}", f"{shares:+.4f}"])
    write_table(rows, "l" + "r" * (len(rows[0]) - 1))
    compared = "head_output" if values else "output, its bias left out,"
    write_lines(
        [
            "",
            f"|sum| is less than the sum of lengths, for vectors point different ways; the model's {compared} differs "
            f"from this sum by {row_sum.error:.1e} at most",
        ]
    )


def _write_distances(trace: "Trace", stack: str, json: bool) -> None:
    from pellucid.inspect.attention import reading_distances

    distances = reading_distances(trace, stack)
    if json:
        write_objects(distances)
        return
    write_lines(_trace_heading_lines(trace, stack))
    heads = len(distances[0].heads)
    rows = [["", *(f"head {n}" for n in range(heads)), "mean", "even weights"]]
    for layer in distances:
        cells = ["-" if value is None else f"{value:.2f}" for value in layer.heads]
        mean = "-" if layer.mean is None else f"{layer.mean:.2f}"
        rows.append([layer.attention, *cells, mean, f"{layer.even:.2f}"])
    write_table(rows, "l" + "r" * (heads + 2))
    write_lines(["", "pieces between what reads and what is read, weighted by attention; special tokens are left out"])


CELLS_SHOWN = 6
"""Largest numbers of a row that are shown where the table does not fit."""


def _trace_tensors(
    loaded: "Model", sentence: str, target: str | None, where: str, names: Sequence[str], context: str = ""
) -> "Trace":
    """Return a trace that keeps these tensors."""
    # The encoder does not depend on the translation: an empty one saves the search.
    forced_target = "" if target is None and where.startswith("encoder") else target
    return loaded.trace(sentence, target=forced_target, keep=names, context=context)


def _trace_heading_lines(trace: "Trace", where: str) -> list[str]:
    """Return the lines above a table: the sentence and, for the decoder, its translation."""
    return [trace.source.text, *([] if where.startswith("encoder") else [f"→ {trace.target.text}"]), ""]


def _format_matrix(
    rows: Sequence[str], heads: Sequence[str], values: "np.ndarray", digits: int, *, sums: bool
) -> Iterator[str]:
    """Yield a table with empty cells for NaN; where it is too wide, each row as a line of its largest numbers."""
    import numpy as np

    terminal = Terminal.of_stdout()
    cells = [[f"{value:.{digits}f}" if np.isfinite(value) else "" for value in row] for row in values]
    totals = [[f"{np.nansum(row):.{digits}f}"] if sums else [] for row in values]
    head = ["", *heads, *(["sum"] if sums else [])]
    lines = format_table(
        [head, *([name, *row, *total] for name, row, total in zip(rows, cells, totals, strict=True))],
        "l" + "r" * (len(head) - 1),
    )
    # A file or a pipe gets the whole table, however wide it is.
    if not terminal.colour or max(map(text_width, lines)) <= terminal.width:
        yield terminal.dim(lines[0])
        yield from lines[1:]
        return
    for name, row in zip(rows, values, strict=True):
        largest = sorted((n for n in range(len(row)) if np.isfinite(row[n])), key=lambda n: -row[n])[:CELLS_SHOWN]
        yield from wrap_items(
            [f"{escape_controls(name)}:", *(f"{escape_controls(heads[n])} {row[n]:.{digits}f}" for n in largest)],
            terminal.width,
        )


PAIR_EXAMPLES = """\
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk drank
  pellucid inspect pair runs/demo/best "The black cat drank the milk." milk cat --where encoder.2.self --head 3
  pellucid inspect pair runs/demo/best "The ball is blue." azul blue --where decoder.3.cross --json"""


def show_pair(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, SENTENCE],
    query: Annotated[str, argument("WORD", "word that reads; was:2 is the second was, ▁was a piece")],
    key: Annotated[str, argument("WORD", "word that is read")],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[int, option("head, counted from 0", "N")] = 0,
    target: Annotated[str | None, TARGET] = None,
    side: Annotated[str, ROW_SIDE] = "output",
    count: Annotated[int, option("dimensions to show of either sign", None, "--count", "-k")] = 5,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show why one word reads another, from q · k.

    The product q · k is taken apart into cosine, lengths and dimensions. It is large when query and key are long and
    point the same way; it is the sum of one product for each dimension. Divided by sqrt(d_k) it is the score, and
    softmax over the row makes the weight.
    """
    from pellucid.api import load
    from pellucid.inspect.attention import require_head, take_product_apart

    if count < 1:
        raise ValueError(f"--count is {count}, it must be 1 or more")
    loaded = load(model)
    # Wrong names are reported before the search.
    require_head(loaded.bundle.model.config, where, head)
    names = [f"{where}.{tensor}" for tensor in ("q", "k", "scores", "allowed", "pattern")]
    trace = _trace_tensors(loaded, sentence, target, where, names)
    pair = take_product_apart(trace, where, head, query, key, side=side)
    if json:
        write_objects([pair])
        return
    write_lines(_trace_heading_lines(trace, where))
    write_lines(_product_lines(pair, count))


def _product_lines(pair: "QueryKeyPair", count: int) -> Iterator[str]:
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
    yield f"softmax: weight      {pair.weight:.4f}, {keys}; even weights would be {1 / pair.keys:.4f}"
    yield ""
    for title, sign in (("add most", 1), ("take most away", -1)):
        largest = [f"dim {d} {value:+.3f}" for d, value in pair.largest(count, sign)]
        yield f"of {pair.width} dimensions {title}: {', '.join(largest) or 'none'}"
