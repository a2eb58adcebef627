"""`pellucid inspect attention`: one attention of one sentence, word by word."""

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.attention_tables import (
    SIDE,
    TARGET,
    WHERE,
    format_matrix,
    rows_as_json,
    sentence_lines_of,
    trace_tensors,
)
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table
from pellucid.cli.options import MODEL

if TYPE_CHECKING:
    from pellucid.inspect.attention import AttentionSum, AttentionTable
    from pellucid.trace.trace import Trace

EXAMPLES = """\
  pellucid inspect attention runs/demo/best "The ball is blue."
  pellucid inspect attention runs/demo/best "The ball is blue." --where decoder.2.cross --head 1 --plot cross.png
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --stage scores
  pellucid inspect attention runs/demo/best "The ball is blue." --head 0 --word blue
  pellucid inspect attention runs/demo/best "The ball is blue." --where decoder.3.self --csv self.csv --html self.html
  pellucid inspect attention runs/demo/best "The ball is blue." --where encoder.3.self --rollout"""

LARGEST_ERROR = 1e-4
"""How far from 1 a row of weights may sum: many times what float32 rounds."""


def run(
    model: Annotated[str, MODEL],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="what is translated")],
    where: Annotated[str, WHERE] = "encoder.0.self",
    head: Annotated[str, typer.Option(metavar="N|mean", help="one head, 0 first, or the mean of all")] = "mean",
    stage: Annotated[
        str,
        typer.Option(
            metavar="products|scores|pattern",
            help="q k^T as they come; divided by sqrt(d_k); or after softmax, the weights",
        ),
    ] = "pattern",
    word: Annotated[
        str | None, typer.Option(metavar="WORD", help="only this word's row, as the sum it is; was:2 is the second was")
    ] = None,
    target: Annotated[str | None, TARGET] = None,
    side: Annotated[str, SIDE] = "output",
    pieces: Annotated[bool, typer.Option("--pieces", help="piece by piece, not word by word")] = False,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="what a position has of each input after all layers up to this one")
    ] = False,
    distances: Annotated[
        bool, typer.Option("--distances", help="instead: how far every layer of this stack reads")
    ] = False,
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="write the table with all digits")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="write the table as a page that stands alone")
    ] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Which word reads which, in numbers.

    Rows read, columns are read. A word of several pieces is read with all of them (their sum), and reads on average
    over its own (their mean), so rows still sum to 1. Scores of pieces do not add up to a score of their word: products
    and scores are shown piece by piece. The decoder's self-attention has no cells for what is not written yet.
    """
    from pellucid.api import load
    from pellucid.inspect import attention

    require_figure(plot)
    for path, ending in ((csv_file, ".csv"), (html, ".html")):
        require_figure(path, endings=(ending,))
    number = parse_head(head)
    of_table = {"--csv": csv_file, "--html": html, "--plot": plot}
    refuse_together(word, rollout, distances, {**of_table, "--head": number is not None, "--stage": stage != "pattern"})
    loaded = load(model)
    attention.require_attention(loaded.bundle.model.config, where)
    stack = where.partition(".")[0]
    parts = ("products", "scores", "pattern", "allowed", "v", "head_output", "output")
    names = [f"{where}.{each}" for each in parts]
    if rollout or distances:
        names = [f"{stack}.*.self.pattern", f"{stack}.*.self.allowed"]
    trace = trace_tensors(loaded, sentence, target, where, names)
    if distances:
        write_distances(trace, stack, json)
        return
    if word is not None:
        write_sum(
            trace,
            attention.attention_row_as_sum(trace, where, word, number, side=side, pieces=pieces),
            where,
            number,
            json,
        )
        return
    if rollout:
        found = attention.rollout_table(trace, where, pieces=pieces)
    else:
        found = attention.attention_table(trace, where, number, stage=stage, side=side, pieces=pieces)
    require_sums_of_one(found)
    write_table_files(found, trace, csv_file, html, plot)
    if json:
        write_objects(
            [{**vars(found), "values": rows_as_json(found.values), "texts": sentence_and_translation(trace, where)}]
        )
    else:
        write_lines(table_lines(found, trace, pieces))


def parse_head(head: str) -> int | None:
    """A head, or None for the mean of all."""
    if head == "mean":
        return None
    if not head.isascii() or not head.isdigit() or len(head) > 6:
        raise ValueError(f"--head is {head!r:.40}, it must be a number, 0 for the first head, or mean")
    return int(head)


def refuse_together(word: str | None, rollout: bool, distances: bool, others: dict[str, object]) -> None:
    """ValueError for options that do not go together."""
    asked = [name for name, given in (("--word", word), ("--rollout", rollout), ("--distances", distances)) if given]
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} ask for different things; leave one out")
    unused = {"--word": ("--csv", "--html", "--plot", "--stage"), "--rollout": ("--head", "--stage")}
    for name in asked:
        for other in unused.get(name, tuple(others)):
            if others[other]:
                raise ValueError(f"{name} does not go with {other}; leave one out")


def require_sums_of_one(found: "AttentionTable") -> None:
    """ValueError for rows of weights that do not sum to 1: such a table is wrong, and is not shown."""
    if found.stage in ("pattern", "rollout"):
        worst = max(found.sums, key=lambda total: abs(total - 1))
        if not abs(worst - 1) < LARGEST_ERROR:
            raise ValueError(
                f"{found.attention}: a row of weights sums to {worst:.6f}, and should sum to 1; are the model's "
                "weights all numbers? If they are, this is a fault of pellucid"
            )


def sentence_and_translation(trace: "Trace", where: str) -> list[str]:
    """The sentence, and its translation where that is looked at."""
    return [trace.source.text, *([] if where.startswith("encoder") else [trace.target.text])]


def describe_table(found: "AttentionTable") -> str:
    """What the table is, in words."""
    from pellucid.inspect.attention import STAGES

    if found.stage == "rollout":
        return f"rollout up to {found.attention}: heads averaged, half of each layer's input kept, layers multiplied"
    head = "mean of all heads" if found.head is None else f"head {found.head}"
    return f"{found.attention}, {head}: {found.stage} ({STAGES[found.stage]})"


def sum_line(found: "AttentionTable") -> list[str]:
    """What the rows of weights add up to."""
    if found.stage not in ("pattern", "rollout"):
        return []
    return [f"each row sums to 1, to within {abs(found.sums - 1).max():.1e}"]


def table_lines(found: "AttentionTable", trace: "Trace", pieces: bool) -> Iterator[str]:
    """The table for a terminal."""
    weights = found.stage in ("pattern", "rollout")
    yield from sentence_lines_of(trace, found.attention)
    yield describe_table(found)
    yield ""
    yield from format_matrix(found.rows, found.columns, found.values, 3 if weights else 2, sums=weights)
    yield ""
    yield from sum_line(found)
    if not weights and not pieces:
        yield f"piece by piece: {found.stage} of pieces do not add up to those of their word, as weights do"
    if found.stage == "rollout":
        yield "a rule of thumb: it knows neither how much each layer really mixes nor what the values hold"


def write_table_files(
    found: "AttentionTable", trace: "Trace", csv_file: str | None, html: str | None, plot: str | None
) -> None:
    """The table in the files that were asked for."""
    from pellucid.cli.inspecting.project import write_and_report

    weights = found.stage in ("pattern", "rollout")
    if csv_file:
        write_and_report(csv_file, table_as_csv(found))
    if html:
        from pellucid.page.table import table_html

        says = [
            *(" → ".join(sentence_and_translation(trace, found.attention)).splitlines()),
            "Rows read, columns are read.",
            *sum_line(found),
        ]
        values = rows_as_json(found.values)
        page = table_html(
            found.rows,
            found.columns,
            values,
            title=describe_table(found),
            says=says,
            sums=weights,
            digits=3 if weights else 2,
        )
        write_and_report(html, page)
    if plot:
        from pellucid.plots.heatmap import draw_heat_map

        save_figure(
            plot,
            lambda path: draw_heat_map(
                found.values,
                path,
                title=describe_table(found).partition(":")[0],
                rows=found.rows,
                columns=found.columns,
                row_name="reads",
                column_name="is read",
                signed=not weights,
                absent=True,
                high=1.0 if weights else None,
                cells=[
                    ["" if value is None else f"{value:.2f}" for value in row] for row in rows_as_json(found.values)
                ],
            ),
        )


def table_as_csv(found: "AttentionTable") -> str:
    """The table with a head, its first column the words that read; what may not be read is left empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["", *found.columns])
    for name, row in zip(found.rows, rows_as_json(found.values), strict=True):
        writer.writerow([name, *("" if value is None else f"{value:.9g}" for value in row)])
    return text.getvalue()


def write_sum(trace: "Trace", found: "AttentionSum", where: str, head: int | None, json: bool) -> None:
    """A row as a sum of vectors."""
    if json:
        write_objects([{"attention": where, "head": head, **vars(found)}])
        return
    write_lines(sentence_lines_of(trace, where))
    which = "all heads, through W_O" if head is None else f"head {head}"
    write_lines([f"{where}, {which}: what {found.row} reads is a sum of vectors, weight × value", ""])
    values = head is not None
    rows = [["", "weight", *(["|value|"] if values else []), "|weight × value|", "share of the sum"]]
    for term in found.terms:
        length = [f"{term.value:.3f}"] if values else []
        rows.append([term.label, f"{term.weight:.4f}", *length, f"{term.norm:.4f}", f"{term.share:+.4f}"])
    blank = [""] if values else []
    shares, weights = (sum(getattr(term, name) for term in found.terms) for name in ("share", "weight"))
    rows.append(["sum", f"{weights:.4f}", *blank, f"{found.norm:.4f}", f"{shares:+.4f}"])
    write_table(rows, "l" + "r" * (len(rows[0]) - 1))
    what = "head_output" if values else "output, its bias left out,"
    write_lines(
        [
            "",
            f"|sum| is less than the sum of lengths, for vectors point different ways; the model's {what} differs from "
            f"this sum by {found.error:.1e} at most",
        ]
    )


def write_distances(trace: "Trace", stack: str, json: bool) -> None:
    """How far each layer reads."""
    from pellucid.inspect.attention import reading_distances

    found = reading_distances(trace, stack)
    if json:
        write_objects(found)
        return
    write_lines(sentence_lines_of(trace, stack))
    heads = max(len(each.heads) for each in found)
    rows = [["", *(f"head {n}" for n in range(heads)), "mean", "even weights"]]
    for each in found:
        cells = ["-" if value is None else f"{value:.2f}" for value in each.heads]
        mean = "-" if each.mean is None else f"{each.mean:.2f}"
        rows.append([each.attention, *cells, *[""] * (heads - len(cells)), mean, f"{each.even:.2f}"])
    write_table(rows, "l" + "r" * (heads + 2))
    write_lines(["", "pieces between what reads and what is read, weighted by attention; marks are left out"])
