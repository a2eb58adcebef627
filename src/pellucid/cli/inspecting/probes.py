"""`pellucid inspect probes`: compares what articles wish attention to do with what a model does."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import FIGURES, save_figure, write_report
from pellucid.cli.options import JSON, LANGUAGE_TO_WRITE, MODEL, PLOT, argument
from pellucid.cli.terminal import Terminal, escape_controls, format_table, table_lines, wrap_text
from pellucid.store.atomic import require_writable

if TYPE_CHECKING:
    from pellucid.interpret.studies.probing import JudgedHeads, Probe, ProbedHead, ProbeResult

PROBES_EXAMPLES = """\
  pellucid inspect probes runs/demo/best
  pellucid inspect probes runs/demo/best milk-drank they-fruits --plot probes.png
  pellucid inspect probes runs/demo/best --json"""


def show_probes(
    model: Annotated[str, MODEL],
    names: Annotated[list[str] | None, argument("[NAME...]", "probes to run; default: all of them")] = None,
    language: Annotated[str | None, LANGUAGE_TO_WRITE] = None,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Compare what attention does with what articles say.

    Each probe is a sentence, a word that reads, and the order in which it should read other words. The command counts
    the heads that do so, by weights and by norms (weight times |v W_O|, how far a word moves the row). It also shows
    how many would do so by chance; a word of several pieces is read more by chance. --json has every head. A model
    whose attention reads in other ways may translate just as well.
    """
    from pellucid.api import load
    from pellucid.interpret.studies.probing import read_gallery, run_probe

    require_writable(plot, FIGURES)
    probes = _choose_probes(read_gallery(), names or [])
    loaded = load(model, target_language=language)
    config = loaded.bundle.model.config
    results, left_out = [], []
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
    lines = (line for result in results for line in (*_probe_lines(result), ""))
    write_report(json, map(_result_as_object, results), (*lines, *_summary_lines(results)))


def _choose_probes(probes: "Sequence[Probe]", names: Sequence[str]) -> "list[Probe]":
    """Return the probes with these names, or all; raise ValueError for an unknown name."""
    from pellucid.config import suggest_nearest

    by_name = {probe.name: probe for probe in probes}
    for name in names:
        if name not in by_name:
            suggestion = suggest_nearest(name, by_name)
            raise ValueError(f"there is no probe {name!r:.60}{suggestion} (there are {', '.join(by_name)})")
    # A probe that is named twice runs once.
    return [by_name[name] for name in dict.fromkeys(names)] if names else list(probes)


def _probe_lines(result: "ProbeResult") -> Iterator[str]:
    """Yield the lines of one probe: the wish, what each layer does, and the verdict."""
    from pellucid.interpret.studies.probing import PLACES

    terminal, probe = Terminal.of_stdout(), result.probe
    yield terminal.bold(escape_controls(probe.name)) + (f"  ({' '.join(probe.article)})" if probe.article else "")
    yield f"  {escape_controls(probe.sentence)}" + (f" → {escape_controls(probe.target)}" if probe.target else "")
    yield from wrap_text(f"In the {PLACES[probe.where]}, {probe.wish}. {probe.why}", terminal.width, "  ")
    for note in result.notes:
        yield from wrap_text(f"Note: {note}.", terminal.width, "  ")
    rows = list(_rows_by_layer(result))
    # The last column holds the words that are read most: text of any length.
    yield from table_lines(rows, "l" + "r" * (len(rows[0]) - 2) + "l", "  ")
    for judged in result.judged:
        yield f"  {_best_head_line(result, judged)}"
    yield from wrap_text(f"{result.verdict}.", terminal.width, "  ")


def _rows_by_layer(result: "ProbeResult") -> Iterator[list[str]]:
    """Yield for each attention how many heads do as wished, mean weights of the words, and what heads read most."""
    weights, norms = result.judged
    yield ["", "heads", "by weights", "by norms", *_column_heads(result), "each head reads most"]
    norm_heads = norms.by_attention()
    for name, heads in weights.by_attention().items():
        means = [
            sum(values) / len(heads) for values in zip(*(_head_values(result, head) for head in heads), strict=True)
        ]
        counts = [str(sum(head.wished for head in judged)) for judged in (heads, norm_heads[name])]
        most_read = "; ".join(_most_read_words(result, head) for head in heads)
        yield [name, str(len(heads)), *counts, *(f"{value:.3f}" for value in means), most_read]
    # The mean is judged as if it were a head; the counts beside it are sums over all heads.
    total = [str(len(weights.heads)), str(weights.count), str(norms.count)]
    yield [
        "mean of all heads",
        *total,
        *(f"{value:.3f}" for value in _head_values(result, weights.mean)),
        _most_read_words(result, weights.mean),
    ]
    chance = f"{result.chance * len(weights.heads):.1f}"  # heads, on average, if weights were random
    yield ["by chance", "", chance, chance, *[""] * len(_column_heads(result)), ""]


def _column_heads(result: "ProbeResult") -> list[str]:
    """Return the heads of the number columns: the words of the order, or "apart" for the distance of rows."""
    return [result.words[n] for n in result.ordered_words] or ["apart"]


def _head_values(result: "ProbeResult", head: "ProbedHead") -> list[float]:
    """Return the numbers of an attention head for the columns of `_column_heads`."""
    # A probe with an order has one reader, so its row is the only one; a probe with `differ` has no order.
    return [head.shares[0][n] for n in result.ordered_words] or [head.margin]


def _most_read_words(result: "ProbeResult", head: "ProbedHead") -> str:
    """Return the words that the readers read most, special tokens included."""
    return " ".join(result.words[max(range(len(row)), key=lambda n: row[n])] for row in head.shares)


def _best_head_line(result: "ProbeResult", judged: "JudgedHeads") -> str:
    """Return a line on the head that comes nearest to the wish."""
    best = judged.best_head
    numbers = ", ".join(
        f"{escape_controls(name)} {value:.3f}"
        for name, value in zip(_column_heads(result), _head_values(result, best), strict=True)
    )
    exception = "" if best.wished else ", though it does not either"
    return f"by {judged.kind} the head that comes nearest is {best.attention} head {best.head}{exception}: {numbers}"


def _summary_lines(results: "Sequence[ProbeResult]") -> Iterator[str]:
    """Yield the verdicts of all probes as one table."""
    rows = [["probe", "heads as wished", "by chance", "beyond chance", "all heads, weights", "norms"]]
    for result in results:
        weights, norms = result.judged
        total = len(weights.heads)
        means_wished = ["does" if judged.mean.wished else "does not" for judged in (weights, norms)]
        beyond = "yes" if result.beyond_chance else "no"
        rows.append(
            [result.probe.name, f"{weights.count} of {total}", f"{result.chance * total:.1f}", beyond, *means_wished]
        )
    yield from format_table(rows, "lrrlll")


def _result_as_object(result: "ProbeResult") -> dict[str, Any]:
    """Return a result for JSON: the probe, the words, every head by weights and by norms."""
    by_kind = {
        heads.kind: {"count": heads.count, "mean": heads.mean, "best": heads.best_head, "heads": heads.heads}
        for heads in result.judged
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
        values = [[sum(column) / len(column) for column in zip(*head.shares, strict=True)] for head in weights.heads]
        wished = [head.wished for head in weights.heads]
        panels.append(ProbePanel(result.probe.wish, rows, result.words, values, wished, result.ranks))
    save_figure(plot, draw_probe_panels, panels)
