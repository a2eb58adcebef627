"""`pellucid inspect logits`: logits as probabilities, of numbers given or of a real step."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_lines
from pellucid.cli.inspecting.output import JSON, PLOT, require_figure, save_figure, write_objects, write_table

if TYPE_CHECKING:
    from pellucid.inspect.softmax import SoftmaxShare

EXAMPLES = """\
  pellucid inspect logits --given "azul=40 cielo=51 El=43 es=38"
  pellucid inspect logits --given "40 51 43 38" --claimed "0.005 0.973 0.015 0.007"
  pellucid inspect logits runs/demo/best "The ball is blue."
  pellucid inspect logits runs/demo/best "The ball is blue." --step 2 --count 20 --plot step.png"""


def run(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="a model directory, such as runs/demo/best")
    ] = None,
    sentence: Annotated[str | None, typer.Argument(metavar="[SENTENCE]", help="what it translates")] = None,
    step: Annotated[int, typer.Option(metavar="N", help="of which step, 1 first; 0: of every step")] = 0,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="look into this translation instead of searching for one")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-k", help="candidates shown, at most 20")] = 5,
    given: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="logits instead of a model's, each with a name or not: a=1 b=2"),
    ] = None,
    claimed: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="probabilities somebody gives for them: can that be?")
    ] = None,
    temperature: Annotated[float, typer.Option(help="given logits are divided by it first")] = 1.0,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[str | None, PLOT] = None,
) -> None:
    """Show the probabilities that softmax makes of logits.

    Show them for logits that you give, exactly, or for the candidates of each step in which a model writes its
    translation.
    """
    require_figure(plot)
    if (given is None) == (model is None):
        raise ValueError("give a model and a sentence, or numbers with --given")
    if given is not None:
        show_given_logits(given, claimed, temperature, json, plot)
        return
    if claimed is not None or temperature != 1.0:
        raise ValueError("--claimed and --temperature go with --given")
    if sentence is None:
        raise ValueError("give a sentence to translate beside the model, or numbers with --given")
    if not 1 <= count <= 20:
        raise ValueError(f"--count is {count}, a step shows 1 to 20 candidates")
    show_step_logits(str(model), sentence, target, step, count, json, plot)


def show_given_logits(given: str, claimed: str | None, temperature: float, json: bool, plot: str | None) -> None:
    """Logits that somebody gives."""
    from pellucid.inspect.softmax import explain_impossible, softmax_shares

    names, logits = parse_numbers(given, "--given")
    wanted = None if claimed is None else parse_numbers(claimed, "--claimed")[1]
    found = softmax_shares(logits, names, temperature)
    why = None if wanted is None else explain_impossible(logits, wanted)
    if plot:
        draw_softmax(found, plot, f"softmax at temperature {temperature:g}")
    if json:
        refused = {} if wanted is None else {"claimed": wanted, "refuted": why}
        write_objects([{"temperature": temperature, "shares": found, **refused}])
        return
    rows = [["", "logit", "exp(logit - max)", "probability", *(["claimed"] * bool(wanted))]]
    for number, share in enumerate(found):
        beside = [f"{wanted[number]:g}"] if wanted else []
        rows.append([share.name, f"{share.logit:g}", f"{share.exponential:.6g}", f"{share.probability:.6g}", *beside])
    write_table(rows, "l" + "r" * (len(rows[0]) - 1))
    if wanted:
        right = "can be theirs at some temperature" if why is None else f"cannot be theirs: {why}"
        write_lines(["", f"the claimed probabilities {right}"])


def show_step_logits(
    model: str, sentence: str, target: str | None, step: int, count: int, json: bool, plot: str | None
) -> None:
    """The candidates of the steps of a translation."""
    from pellucid.api import load

    trace = load(model).trace(sentence, target=target, keep="logits")
    if not 0 <= step <= len(trace.steps):
        raise ValueError(f"--step is {step}, this translation has steps 1 to {len(trace.steps)}")
    steps = trace.steps if step == 0 else [trace.steps[step - 1]]
    if plot:
        from pellucid.inspect.softmax import SoftmaxShare

        best = steps[0].top[:count]
        found = [SoftmaxShare(each.piece, each.logit, each.prob / best[0].prob, each.prob) for each in best]
        draw_softmax(found, plot, f"step {steps[0].step + 1} of {trace.target.text!r}")
    if json:
        write_objects({**vars(each), "top": each.top[:count]} for each in steps)
        return
    write_lines([trace.source.text, f"→ {trace.target.text}", ""])
    rows = [["step", "reads", "candidate", "logit", "probability", ""]]
    for each in steps:
        for place, candidate in enumerate(each.top[:count]):
            here = [str(each.step + 1), each.input] if place == 0 else ["", ""]
            mark = "written" if candidate.id == each.chosen.id else ""
            rows.append([*here, candidate.piece, f"{candidate.logit:.4f}", f"{candidate.prob:.6f}", mark])
        if each.rank > count:
            chosen = each.chosen
            rows.append(
                ["", "", chosen.piece, f"{chosen.logit:.4f}", f"{chosen.prob:.6f}", f"written, number {each.rank:,}"]
            )
        shown = {candidate.id: candidate.prob for candidate in [*each.top[:count], each.chosen]}
        rest = max(0.0, 1.0 - sum(shown.values()))
        others = len(each.top) + each.others_count - len(shown)
        rows.append(["", "", f"{others:,} others", "", f"{rest:.6f}", ""])
    write_table(rows, "rllrrl")


def parse_numbers(numbers: str, option: str) -> tuple[list[str], list[float]]:
    """Numbers between blanks or commas, each with a name before = or without.

    >>> parse_numbers("azul=40, 51", "--given")
    (['azul', '2'], [40.0, 51.0])
    """
    names, values = [], []
    for number, part in enumerate(re.split(r"[\s,]+", numbers.strip(" ,\n[]")), start=1):
        name, _, value = part.rpartition("=")
        try:
            values.append(float(value))
        except ValueError:
            raise ValueError(f'{option}: {part!r} is no number; write them as "40 51" or "azul=40 cielo=51"') from None
        names.append(name or str(number))
    return names, values


def draw_softmax(found: "list[SoftmaxShare]", plot: str, title: str) -> None:
    """Logits and probabilities as bars."""
    from pellucid.plots.bars import draw_bars as drawn

    names = [share.name for share in found]
    panels = {"logit": [share.logit for share in found], "probability": [share.probability for share in found]}
    save_figure(plot, lambda path: drawn(names, panels, path, title=title))
