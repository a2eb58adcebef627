"""`pellucid inspect probes`: sentences with a wish, and what this model really does."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.files import require_file, write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, align_columns, require_figure, save_figure, write_objects
from pellucid.cli.options import MODEL
from pellucid.cli.terminal import Terminal, escape_controls, wrap_items

if TYPE_CHECKING:
    from pellucid.inspect.probes import JudgedHeads, Probe, ProbedHead, ProbeResult

EXAMPLES = """\
  pellucid inspect probes runs/demo/best
  pellucid inspect probes runs/demo/best milk-drank they-fruits --plot probes.png
  pellucid inspect probes runs/demo/best --file mine.toml --each
  pellucid inspect probes runs/demo/best --json"""


def run(
    model: Annotated[str, MODEL],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="which probes; if left out, all of them")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="your own, in TOML, instead of the gallery, as said above")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="a row for every head, not one for each layer")] = False,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """What attention does where articles say what it should do.

    Each probe is a sentence, a word that reads, and an order in which it should read others. Counted are the heads that
    read so, by weights and by norms (weight times |v W_O|, how far a word moves the row), beside how many would by
    chance (a word of several pieces is read more by chance, and that is counted in). Nothing is promised: attention
    that reads otherwise may translate as well.

    A file of your own has, for each probe, the line [[probe]] and then name = "cat-sat", sentence = "The cat sat.",
    word = "sat", order = ["cat", "The"]; words of one rank stand in a list of their own. where = "decoder" or "cross"
    takes a target = "..." too.
    """
    from pellucid.api import load
    from pellucid.inspect.probes import read_gallery, read_probes, run_probe

    require_figure(plot)
    probes = choose_probes(read_gallery() if file is None else read_probes(require_file(file)), names or [])
    loaded = load(model)
    config = loaded.bundle.model.config

    def ask(sentence: str, target: str, keep: list[str]):
        return loaded.trace(sentence, target=target, keep=keep)

    found, left_out = [], []
    for probe in probes:
        try:
            found.append(run_probe(probe, ask, config))
        except ValueError as error:
            if file or names:
                raise
            left_out.append(f"left out: {error}")
    if not found:
        raise ValueError("; ".join(left_out))
    for line in left_out:
        typer.echo(line, err=True)
    if plot:
        draw_probes(found, plot)
    if json:
        write_objects(map(result_as_object, found))
        return
    for result in found:
        write_lines([*probe_lines(result, each), ""])
    write_lines(summary_lines(found))


def choose_probes(probes: "Sequence[Probe]", names: Sequence[str]) -> "list[Probe]":
    """Those with these names, or all; ValueError for a name there is not."""
    known = {probe.name: probe for probe in probes}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"there is no probe {name!r:.60}{meant} (there are {', '.join(known)})")
    return [known[name] for name in dict.fromkeys(names)] if names else list(probes)


def probe_lines(result: "ProbeResult", each: bool) -> Iterator[str]:
    """One probe: the wish, what each layer (or head) does, and the verdict."""
    from pellucid.inspect.probes import PLACES

    at, probe = Terminal.of_stdout(), result.probe
    yield at.bold(escape_controls(probe.name)) + (f"  ({' '.join(probe.article)})" if probe.article else "")
    yield f"  {escape_controls(probe.sentence)}" + (f" → {escape_controls(probe.target)}" if probe.target else "")
    yield from wrap_items(
        f"In the {PLACES[probe.where]}, {escape_controls(probe.wish)}. {escape_controls(probe.why)}".split(),
        at.width,
        "  ",
        gap=" ",
    )
    for note in result.notes:
        yield from wrap_items(f"Note: {escape_controls(note)}.".split(), at.width, "  ", gap=" ")
    rows = list(rows_by_head(result) if each else rows_by_layer(result))
    sides = "l" + "r" * (len(rows[0]) - 2) + "l"
    lines = align_columns(rows, sides)
    yield f"  {at.dim(lines[0])}"
    yield from (f"  {line}" for line in lines[1:])
    for judged in result.judged:
        yield f"  {best_head_line(result, judged)}"
    yield from wrap_items(f"{result.verdict}.".split(), at.width, "  ", gap=" ")


def rows_by_layer(result: "ProbeResult") -> Iterator[list[str]]:
    """For each attention how many heads do as wished, the mean weights of the words, and what each head reads most."""
    weights, norms = result.judged
    yield ["", "heads", "by weights", "by norms", *column_heads(result), "each head reads most"]
    other = norms.by_attention()
    for name, heads in weights.by_attention().items():
        mean = [sum(values) / len(heads) for values in zip(*(head_values(result, head) for head in heads), strict=True)]
        counts = [str(sum(head.wished for head in some)) for some in (heads, other[name])]
        most = "; ".join(most_read_words(result, head) for head in heads)
        yield [name, str(len(heads)), *counts, *(f"{value:.3f}" for value in mean), most]
    total = [str(len(weights.heads)), str(weights.count), str(norms.count)]
    yield [
        "mean of all heads",
        *total,
        *(f"{value:.3f}" for value in head_values(result, weights.mean)),
        most_read_words(result, weights.mean),
    ]
    chance = f"{result.chance * len(weights.heads):.1f}"
    yield ["by chance", "", chance, chance, *[""] * len(column_heads(result)), ""]


def rows_by_head(result: "ProbeResult") -> Iterator[list[str]]:
    """For each head whether it does as wished, the weights of the words, and what it reads most."""
    weights, norms = result.judged
    yield ["", "head", "by weights", "by norms", *column_heads(result), "reads most"]
    for head, other in zip(weights.heads, norms.heads, strict=True):
        marks = ["yes" if wished else "-" for wished in (head.wished, other.wished)]
        shares = [f"{value:.3f}" for value in head_values(result, head)]
        yield [head.attention, str(head.head), *marks, *shares, most_read_words(result, head)]
    marks = ["yes" if judged.mean.wished else "-" for judged in result.judged]
    shares = [f"{value:.3f}" for value in head_values(result, weights.mean)]
    yield ["mean of all heads", "", *marks, *shares, most_read_words(result, weights.mean)]
    yield ["by chance", "", *[f"{result.chance:.1%}"] * 2, *[""] * len(shares), ""]


def column_heads(result: "ProbeResult") -> list[str]:
    """The heads of the columns of numbers: the words of the order, or how far apart the rows are."""
    return [result.words[n] for n in result.ordered_words] or ["apart"]


def head_values(result: "ProbeResult", head: "ProbedHead") -> list[float]:
    """The numbers of a head in these columns."""
    return [head.shares[0][n] for n in result.ordered_words] or [head.margin]


def most_read_words(result: "ProbeResult", head: "ProbedHead") -> str:
    """What each reader reads most, marks among it."""
    return " ".join(result.words[max(range(len(row)), key=lambda n: row[n])] for row in head.shares)


def best_head_line(result: "ProbeResult", judged: "JudgedHeads") -> str:
    """The head that does it most."""
    best = judged.best
    numbers = ", ".join(
        f"{escape_controls(name)} {value:.3f}"
        for name, value in zip(column_heads(result), head_values(result, best), strict=True)
    )
    none = "" if best.wished else ", though it does not either"
    return f"by {judged.kind} the head that comes nearest is {best.attention} head {best.head}{none}: {numbers}"


def summary_lines(found: "Sequence[ProbeResult]") -> Iterator[str]:
    """All verdicts in one table."""
    rows = [["probe", "heads as wished", "by chance", "beyond chance", "all heads, weights", "norms"]]
    for result in found:
        weights, norms = result.judged
        total = len(weights.heads)
        does = ["does" if judged.mean.wished else "does not" for judged in (weights, norms)]
        beyond = "yes" if result.beyond_chance else "no"
        rows.append([result.probe.name, f"{weights.count} of {total}", f"{result.chance * total:.1f}", beyond, *does])
    yield from align_columns(rows, "lrrlll")


def result_as_object(result: "ProbeResult") -> dict[str, Any]:
    """For JSON: the probe, the words, every head by weights and by norms."""
    from pellucid.cli.inspecting.output import as_plain_json

    judged = {
        each.kind: {
            "count": each.count,
            "mean": as_plain_json(each.mean),
            "best": as_plain_json(each.best),
            "heads": as_plain_json(each.heads),
        }
        for each in result.judged
    }
    return {
        "probe": as_plain_json(result.probe),
        "wish": result.probe.wish,
        "readers": result.readers,
        "words": result.words,
        "chance": result.chance,
        "by_chance": result.by_chance,
        **judged,
        "notes": result.notes,
        "verdict": result.verdict,
    }


def draw_probes(found: "Sequence[ProbeResult]", plot: str) -> None:
    """A panel for each probe."""
    from pellucid.plots.probes import ProbePanel, draw_probe_panels

    panels = []
    for result in found:
        weights = result.judged[0]
        rows = [f"{head.attention} {head.head}" for head in weights.heads]
        values = [[sum(column) / len(column) for column in zip(*head.shares, strict=True)] for head in weights.heads]
        does = [head.wished for head in weights.heads]
        panels.append(ProbePanel(result.probe.wish, rows, result.words, values, does, result.ranks))
    save_figure(plot, lambda path: draw_probe_panels(panels, path))
