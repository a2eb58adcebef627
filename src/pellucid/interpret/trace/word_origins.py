"""Where each word of a traced translation comes from: the model, a term, or a unit of a memory."""

from dataclasses import replace

from pellucid.decode.line_segments import LineStageMaker
from pellucid.decode.request import SearchConfig
from pellucid.decode.terms.matches import Terminology
from pellucid.decode.translation import WordOrigin
from pellucid.decode.translator import Translator
from pellucid.interpret.trace.facts import TraceFacts


def find_word_origins(
    translator: Translator,
    facts: TraceFacts,
    config: SearchConfig,
    terms: Terminology | None,
    memory: LineStageMaker | None,
) -> tuple[WordOrigin, ...] | None:
    """Return the origin of each word of a traced translation, as `translate` with `provenance` does.

    The sentence is translated again: with its terms and its memory, and without each. None where
    neither was given, and for what such a search would not say: a translation that was given, one
    of an edited run, and one of a part of a line.
    """
    if (terms is None and memory is None) or facts.forced or facts.edits or facts.part is not None:
        return None

    [translation] = translator.translate(
        [facts.sentence],
        replace(config, provenance=True),
        terms=terms,
        contexts=[facts.context],
        translation_memory=memory,
    )
    return translation.provenance
