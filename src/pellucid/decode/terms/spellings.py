"""Writes terms as tokens: all token sequences of a text that a translation may have for it."""

from collections.abc import Iterable, Sequence

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.terms.required import EDGE, Spelling, Term


def term_spellings(tokenizer: Tokenizer, text: str, *, touching: bool = False, capital: bool = False) -> Term:
    """Return the token sequences that write a text: after a space or at the start of the line, and elsewhere.

    With any tokens around them, the target text contains `text`, character for character (in lower
    case with a tokenizer that has only that). Unless `touching`, they count only where no letter or
    digit stands right before or after. With `capital`, a text that begins with a word of small
    letters may also begin with a capital, as at the start of a sentence. Raises ValueError for a
    text that no tokens write: one with a line feed, with runs of spaces or with spaces at its ends,
    or with characters the model does not have.
    """
    spellings = _encode_spellings(tokenizer, text)
    if not spellings or tokenizer.decode_target(spellings[0]) != _written_text(tokenizer, text):
        raise ValueError(explain_unwritable(text))

    if capital and text.split(" ")[0].isalpha():
        capitalized = _encode_spellings(tokenizer, text[0].upper() + text[1:])
        # The search may insist on the shortest spelling; that must never be the one with a capital.
        if capitalized and len(capitalized[0]) >= len(spellings[0]):
            spellings += capitalized

    edge = () if touching else (EDGE,)
    return tuple(dict.fromkeys((*edge, *ids, *edge) for ids in spellings))


def target_spellings(tokenizer: Tokenizer, targets: Iterable[str]) -> Term:
    """Return the spellings of all targets of a term, as token ids.

    Raises ValueError for a target that no tokens write.
    """
    return tuple(spelling for target in targets for spelling in term_spellings(tokenizer, target, capital=True))


def unwritable_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Return the texts that `term_spellings` refuses, with two calls of the tokenizer for all."""
    rows = [ids[:-1] for ids in tokenizer.encode_target(texts)]  # without EOS
    unwritable = []
    for text, ids, written in zip(texts, rows, tokenizer.decode_targets(rows), strict=True):
        if not ids or UNK in ids or written != _written_text(tokenizer, text):
            unwritable.append(text)
    return unwritable


def _written_text(tokenizer: Tokenizer, text: str) -> str:
    """Return a text as its tokens must write it."""
    return text.lower() if tokenizer.lowercase else text


def explain_unwritable(text: str) -> str:
    """Return the sentence for a text that no tokens write."""
    return f"the term {text!r:.60} cannot be written by this model"


def _encode_spellings(tokenizer: Tokenizer, text: str) -> list[Spelling]:
    """Return the tokens of a text with the word-start mark first, and those it has after other characters."""
    # Tokens of a text depend on what stands before it: an opening bracket and a letter stand for
    # all others.
    whole, *in_context = tokenizer.encode_target([text, f"({text}", f"a{text}"])
    if UNK in whole or len(whole) == 1:
        return []
    spellings = [tuple(whole[:-1])]
    for context, ids in zip("(a", in_context, strict=True):
        # No cut where one token covers the context and the beginning of the text.
        cut = next((i for i in range(1, len(ids)) if tokenizer.decode_target(ids[:i]) == context), len(ids))
        spellings += [tuple(ids[cut:-1])] if cut < len(ids) - 1 else []
    return list(dict.fromkeys(spellings))
