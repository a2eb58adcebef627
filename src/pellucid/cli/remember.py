"""`pellucid remember`: stores a model's states over its training text, to find the lines that taught it a word."""

from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.options import argument

REMEMBER_EXAMPLES = """\
  pellucid remember runs/demo
  pellucid remember runs/demo/last"""


def run_remember(
    path: Annotated[str, argument("RUN", "a run directory, such as runs/demo, or a model in one")],
) -> None:
    """Prepare a model to name the training lines behind a word.

    The model reads each pair it was trained on once more, and the decoder's state from which it
    predicts each token goes into a store beside the model, such as runs/demo/best.states, in about
    140 bytes a token. `pellucid explain ... --because WORD` then finds the pairs that taught a
    word. The text must still be where the run's run.toml says. A command that was cut off goes on
    where it stopped; a model that was trained further needs a new store.
    """
    from pellucid.training.state_store import remember_states

    remember_states(Path(path), say=lambda words: typer.echo(words, err=True))
