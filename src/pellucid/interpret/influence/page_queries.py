"""Queries of a page about the whole model, with the one about the training pairs that taught it a word."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.interpret.studies import model_queries
from pellucid.interpret.trace.session import Trace

PAIRS_SHOWN = 8  # pairs of each kind that a page lists


@dataclass(frozen=True)
class _WordArguments:
    word: str


def _answer_influence(trace: Trace, arguments: _WordArguments) -> dict[str, Any]:
    """Return the pairs for a word and against it, or say which command makes the store that this needs.

    Files have their names only, since a page has no use for their folders.
    """
    # It reads runs: no other question needs that.
    from pellucid.interpret.influence.word_influence import find_word_influence
    from pellucid.training.state_store import open_state_store

    bundle = trace.origin.bundle
    try:
        store = open_state_store(bundle.directory, bundle.manifest)
    # not an error of the request: the training text of this model was simply never remembered
    except ValueError as error:
        return {"found": None, "says": str(error)}

    found = find_word_influence(trace, store, arguments.word, PAIRS_SHOWN)
    answer = asdict(found)
    for pair in (*answer["because"], *answer["against"]):
        pair["file"] = Path(pair["file"]).name
    return {"found": answer, "says": None}


VERBS = {**model_queries.VERBS, "influence": (_WordArguments, _answer_influence)}
answers_for_file = model_queries.answers_for_file
