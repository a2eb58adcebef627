"""Sources of documents and corpora: each is joined with the sentences before it, and translated together with them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pellucid.data.context import DocumentReader, encode_with_context, join_context, split_context
from pellucid.decode.request import SearchConfig
from pellucid.decode.translation import Translation

if TYPE_CHECKING:
    from pellucid.decode.translator import Translator


def translate_sources(translator: "Translator", sources: Sequence[str], config: SearchConfig) -> list[Translation]:
    """Translate the sources of a corpus, each with its context (`join_context`)."""
    lines, contexts = [], []
    for source in sources:
        context, line = split_context(source)
        lines.append(line)
        contexts.append(context)
    return translator.translate(lines, config, contexts=contexts)


def join_document(translator: "Translator", sentences: Iterable[str], before: Iterable[str] = ()) -> list[str]:
    """Return the source of each sentence of documents in order: with its context where both fit (`join_context`).

    A blank line ends a document; `before` are the sentences that stand before the first. Raises
    ValueError for a model that was trained without context.
    """
    require_context(translator, "document (--document)")
    reader = DocumentReader(translator.context)
    for sentence in before:
        reader.take(sentence)

    sources = []
    for sentence in sentences:
        context = reader.take(sentence)
        # A blank line, which is no sentence, has none.
        sources.append(join_context(context, sentence) if sentence.strip() else sentence)

    for i, ids in enumerate(encode_with_context(translator.tokenizer, sources)):
        if len(ids) > translator.lengths.longest_trained:
            _, sources[i] = split_context(sources[i])
    return sources


def require_context(translator: "Translator", option: str) -> None:
    """Raise ValueError, which names the option, for a model that was trained without context."""
    if not translator.context:
        raise ValueError(
            f"this model was trained on single sentences and reads none before another; leave out {option}, or "
            "train a model with data.context = 1"
        )
