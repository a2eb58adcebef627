"""`pellucid score`: how likely a model finds given translations."""

from typing import Annotated

import typer

from pellucid.cli.files import json_line, name_file_in_errors, read_file_pair, write_lines
from pellucid.cli.options import DEVICE, JSON, MODEL, PRECISION, search_default, search_option

EXAMPLES = """\
  pellucid score runs/demo/best --source test.en --target test.es
  pellucid score runs/demo/best --source test.en --target test.es --json > scores.jsonl"""


def run(
    model: Annotated[str, MODEL],
    source: Annotated[
        str, typer.Option(metavar="FILE", help="sentences, one a line, plain or .gz; - is standard input")
    ],
    target: Annotated[str, typer.Option(metavar="FILE", help="a translation of each, line by line")],
    batch: Annotated[int, search_option("batch")] = search_default("batch"),
    precision: Annotated[str, PRECISION] = "float32",
    device: Annotated[str, DEVICE] = "cpu",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Log-probabilities of given translations.

    One number a line, a natural logarithm, at most 0. It is the sum over the pieces of the translation and its end
    mark; --json shows each: {"log_prob", "pieces", "per_piece"}. Nothing is searched, so this also works for
    translations the model would never write.
    """
    from pellucid.api import load
    from pellucid.decode.config import SearchConfig

    SearchConfig(batch=batch)
    sources, targets = read_file_pair(source, target)
    loaded = load(model, precision, device=device)
    with name_file_in_errors(f"{source} and {target}"):
        scores = loaded.score(sources, targets, batch=batch)
    if json:
        write_lines(
            json_line({"log_prob": each.log_prob, "pieces": each.pieces, "per_piece": each.per_piece})
            for each in scores
        )
    else:
        write_lines(f"{each.log_prob:.6f}" for each in scores)
