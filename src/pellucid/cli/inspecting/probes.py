"""`pellucid inspect probes`: compares what articles wish attention to do with what a model does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import FIGURES, save_figure, write_report
from pellucid.cli.inspecting.study_views import Column, column_lines
from pellucid.cli.options import JSON, LANGUAGE_TO_WRITE, MODEL, PLOT, argument
from pellucid.cli.terminal import Terminal, escape_controls, wrap_text
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.interpret.studies.probing import JudgedHeads, Probe, ProbedHead, ProbeResult

PROBES_EXAMPLES = """\
  pellucid inspect probes runs/demo/best
  pellucid inspect probes runs/demo/best milk-drank they-fruits --plot probes.png"""


def show_probes(
    model: Annotated[str, MODEL],
    names: Annotated[
        list[str] | None,
        argument("[NAME...]", "probes to run; default: all of them"),
    ] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Compare what attention does with what articles say.

    Each probe is a sentence, a word that reads, and the order in which it should read other words.
    The command counts the heads that do so, by weights and by norms (weight times |v W_O|, how far
    a word moves the row). It also shows how many would do so by chance; a word of several pieces is
    read more by chance. --json has every head. A model whose attention reads in other ways may
    translate just as well.
    """
    from pellucid.api import load
    from pellucid.interpret.studies.probing import read_gallery, run_probe

    require_writable(plot, FIGURES)
    probes = _choose_probes(read_gallery(), names or [])
    loaded = load(model, target_language=language)
    config = loaded.bundle.model.config

    results: list[ProbeResult] = []
    left_out: list[str] = []
    for probe in probes:
        try:
            results.append(run_probe(probe, loaded.trace, config))
        except ValueError as error:
            if names:  # the user asked for just this one; of the gallery the others are still run
                raise
            left_out.append(f"left out: {error}")

    if not results:
        raise ValueError("; ".join(left_out))
    for line in left_out:
        typer.echo(line, err=True)

    if plot:
        _draw_probes(results, plot)
    lines = []
    for result in results:
        lines += [*_probe_lines(result), ""]
    lines += column_lines(results, SUMMARY_COLUMNS)
    write_report(json, map(_result_as_object, results), lines)


def _choose_probes(probes: "Sequence[Probe]", names: Sequence[str]) -> "list[Probe]":
    """Return the probes with these names, or all; raise ValueError for an unknown name."""
    from pellucid.config import suggest_nearest

    by_name = {probe.name: probe for probe in probes}
    for name in names:
        if name not in by_name:
            suggestion, known = suggest_nearest(name, by_name), ", ".join(by_name)
            raise ValueError(f"there is no probe {name!r:.60}{suggestion} (there are {known})")
    # A probe that is named twice runs once.
    return [by_name[name] for name in dict.fromkeys(names)] if names else list(probes)


def _probe_lines(result: "ProbeResult") -> Iterator[str]:
    """Yield the lines of one probe: the wish, what each layer does, and the verdict."""
    from pellucid.interpret.studies.probing import PLACES

    terminal, probe = Terminal.of_stdout(), result.probe
    article = f"  ({' '.join(probe.article)})" if probe.article else ""
    target = f" → {escape_controls(probe.target)}" if probe.target else ""
    yield f"{terminal.bold(escape_controls(probe.name))}{article}"
    yield f"  {escape_controls(probe.sentence)}{target}"
    wish = f"In the {PLACES[probe.where]}, {probe.wish}. {probe.why}"
    yield from wrap_text(wish, terminal.width, "  ")
    for note in result.notes:
        yield from wrap_text(f"Note: {note}.", terminal.width, "  ")

    yield from column_lines(_layer_rows(result), _layer_columns(result), "  ")
    for judged in result.judged:
        yield f"  {_best_head_line(result, judged)}"
    yield from wrap_text(f"{result.verdict}.", terminal.width, "  ")


@dataclass(frozen=True)
class LayerRow:
    """Row of a probe's table: how many heads do as wished, their numbers, and what they read most."""

    name: str
    heads: int | str
    by_weights: int | str
    by_norms: int | str
    values: Sequence[float | str]  # in the columns of `_column_heads`
    most_read: str


def _layer_columns(result: "ProbeResult") -> "list[Column[LayerRow]]":
    """Return the columns of a probe's table, one for each word of its order."""
    columns = [
        Column[LayerRow]("", lambda row: row.name, side="l"),
        Column[LayerRow]("heads", lambda row: row.heads),
        Column[LayerRow]("by weights", lambda row: row.by_weights),
        Column[LayerRow]("by norms", lambda row: row.by_norms),
    ]
    for number, head in enumerate(_column_heads(result)):
        columns.append(Column(head, lambda row, number=number: row.values[number], ".3f"))
    # Text of any length.
    columns.append(Column("each head reads most", lambda row: row.most_read, side="l"))
    return columns


def _layer_rows(result: "ProbeResult") -> Iterator[LayerRow]:
    """Yield a row for each attention, one for the mean of all heads, and one for chance."""
    weights, norms = result.judged
    norm_heads = norms.by_attention()
    for name, heads in weights.by_attention().items():
        values_of_heads = [_head_values(result, head) for head in heads]
        means = [sum(values) / len(heads) for values in zip(*values_of_heads, strict=True)]
        by_weights = sum(head.wished for head in heads)
        by_norms = sum(head.wished for head in norm_heads[name])
        most_read = "; ".join(_most_read_words(result, head) for head in heads)
        yield LayerRow(name, len(heads), by_weights, by_norms, means, most_read)

    # The mean is judged as if it were a head; the counts beside it are sums over all heads.
    mean = weights.mean
    numbers = _head_values(result, mean)
    counts = len(weights.heads), weights.count, norms.count
    yield LayerRow("mean of all heads", *counts, numbers, _most_read_words(result, mean))

    chance = f"{result.chance * len(weights.heads):.1f}"  # heads, on average, if weights were random
    yield LayerRow("by chance", "", chance, chance, [""] * len(numbers), "")


def _column_heads(result: "ProbeResult") -> list[str]:
    """Return the heads of the number columns: the words of the order, or "apart" for the distance of rows."""
    return [result.words[n] for n in result.ordered_words] or ["apart"]


def _head_values(result: "ProbeResult", head: "ProbedHead") -> list[float]:
    """Return the numbers of an attention head for the columns of `_column_heads`."""
    # A probe with an order has one reader, so its row
    # is the only one; one with `differ` has no order.
    return [head.shares[0][n] for n in result.ordered_words] or [head.margin]


def _most_read_words(result: "ProbeResult", head: "ProbedHead") -> str:
    """Return the words that the readers read most, special tokens included."""
    words = []
    for row in head.shares:
        most = max(range(len(row)), key=lambda n: row[n])
        words.append(result.words[most])
    return " ".join(words)


def _best_head_line(result: "ProbeResult", judged: "JudgedHeads") -> str:
    """Return a line on the head that comes nearest to the wish."""
    best = judged.best_head
    numbers = []
    for name, value in zip(_column_heads(result), _head_values(result, best), strict=True):
        numbers.append(f"{escape_controls(name)} {value:.3f}")
    exception = "" if best.wished else ", though it does not either"
    head = f"{best.attention} head {best.head}{exception}"
    return f"by {judged.kind} the head that comes nearest is {head}: {', '.join(numbers)}"


def _count_of_heads(result: "ProbeResult") -> str:
    """Return how many heads do as wished, of how many, by weights."""
    weights = result.judged[0]
    return f"{weights.count} of {len(weights.heads)}"


def _verdict_on_mean(judged: "JudgedHeads") -> str:
    return "does" if judged.mean.wished else "does not"


SUMMARY_COLUMNS: "Sequence[Column[ProbeResult]]" = (
    Column("probe", lambda result: result.probe.name, side="l"),
    Column("heads as wished", _count_of_heads),
    Column("by chance", lambda result: result.chance * len(result.judged[0].heads), ".1f"),
    Column("beyond chance", lambda result: "yes" if result.beyond_chance else "no", side="l"),
    Column("all heads, weights", lambda result: _verdict_on_mean(result.judged[0]), side="l"),
    Column("norms", lambda result: _verdict_on_mean(result.judged[1]), side="l"),
)


def _result_as_object(result: "ProbeResult") -> dict[str, Any]:
    """Return a result for JSON: the probe, the words, every head by weights and by norms."""
    by_kind = {}
    for judged in result.judged:
        by_kind[judged.kind] = {
            "count": judged.count,
            "mean": judged.mean,
            "best": judged.best_head,
            "heads": judged.heads,
        }

    return {
        "probe": result.probe,
        "wish": result.probe.wish,
        "readers": result.readers,
        "words": result.words,
        "chance": result.chance,
        "by_chance": result.by_chance,
        **by_kind,
        "notes": result.notes,
        "verdict": result.verdict,
    }


def _draw_probes(results: "Sequence[ProbeResult]", plot: str) -> None:
    """Draw a panel for each probe."""
    from pellucid.interpret.plots.charts import ProbePanel, draw_probe_panels

    panels = []
    for result in results:
        weights = result.judged[0]  # by weights; judged[1] is by norms
        rows = [f"{head.attention} {head.head}" for head in weights.heads]
        # Where several words read, the panel shows the mean of their rows.
        values = []
        for head in weights.heads:
            columns = zip(*head.shares, strict=True)
            values.append([sum(column) / len(column) for column in columns])
        wished = [head.wished for head in weights.heads]
        panel = ProbePanel(result.probe.wish, rows, result.words, values, wished, result.ranks)
        panels.append(panel)

    save_figure(plot, draw_probe_panels, panels)
