"""`pellucid verify`: whether a model still translates as it did when it was saved."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.cli.files import write_report
from pellucid.cli.options import DEVICE, ENGINE, EXPORTED, FAILED, JSON, MODEL, PRECISIONS

if TYPE_CHECKING:
    from pellucid.evaluate.reference import Verification

VERIFY_EXAMPLES = """\
  pellucid verify runs/demo/best
  pellucid verify runs/demo/best --engine ctranslate2
  pellucid verify runs/demo/best --exported demo-int8 --json"""


def run_verify(
    model: Annotated[str, MODEL],
    engine: Annotated[str, ENGINE] = "auto",
    precision: Annotated[str, PRECISIONS] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    exported: Annotated[str | None, EXPORTED] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Check that a model still translates as when it was saved.

    A model directory keeps up to 200 lines of the dev text with the translations and scores that
    the model gave them when it was saved. They are translated anew and compared: after an upgrade,
    on another machine, with another engine or precision. Every line that differs is listed. Exit
    code 0: the same texts, and scores within 0.001 nats; 1: not the same.
    """
    from pellucid.api import load

    verification = load(model, precision, engine, device=device, exported=exported).verify()
    objects = [{"passed": verification.passed, **vars(verification)}]
    write_report(json, objects, _verification_lines(verification))
    if not verification.passed:
        raise typer.Exit(FAILED)


def _verification_lines(verification: "Verification") -> Iterator[str]:
    """Yield a line on the whole, and three on each line that differs."""
    for line in verification.changed:
        yield f"line {line.number}: {line.source}"
        yield f"  then ({line.expected_score:.4f}): {line.expected}"
        yield f"  now  ({line.score:.4f}): {line.text}"

    same = verification.lines - len(verification.changed)
    other_scores = len(verification.changed) - verification.other_texts
    yield (
        f"{same:,} of {verification.lines:,} lines come out the same, {verification.other_texts:,} with another text, "
        f"{other_scores:,} with another score; scores of the same text differ by at most "
        f"{verification.largest_difference:.1g} ({verification.tolerance:g} is allowed)"
    )
