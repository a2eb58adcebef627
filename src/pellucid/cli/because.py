"""Training pairs that taught a word, as lines for the terminal."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.terminal import Terminal, escape_controls

if TYPE_CHECKING:
    from pellucid.influence.word_influence import InfluentialPair, WordInfluence


def influence_lines(sentence: str, found: "WordInfluence", terminal: Terminal) -> Iterator[str]:
    """Yield the pairs for a word and against it, and how far the two ways that found them agree."""
    yield f"{escape_controls(sentence)} → {escape_controls(found.translation)}"
    yield (
        f"{terminal.bold(escape_controls(found.word))} was decided at its piece {escape_controls(found.piece)}, which "
        f"had a probability of {found.probability:.3f}."
    )
    for title, pairs in (("made it likelier", found.because), ("spoke against it", found.against)):
        yield ""
        yield f"Training pairs that {title}" + ("" if pairs else ": none among those looked at")
        for pair in pairs:
            yield from _pair_lines(pair, terminal)
    agreement, steps = found.agreement, len(found.steps)
    yield ""
    yield (
        f"Of {found.candidates:,} pairs with states like this one, both ways have {agreement.both_on_top} of their "
        f"first {agreement.of} in common; their rank correlation is {agreement.rank_correlation:.2f}."
    )
    models = "the model itself" if not steps else "1 checkpoint" if steps == 1 else f"{steps} checkpoints"
    yield terminal.dim(f"state: how like the state is from which it was written; gradient: influence, by {models}")


def _pair_lines(pair: "InfluentialPair", terminal: Terminal) -> Iterator[str]:
    """Yield the place of a pair with its numbers, and both of its sentences with the word and what it translates."""
    place = escape_controls(f"{Path(pair.file).name}:{pair.line}")
    yield terminal.dim(f"  {place}  state {pair.state:+.3f}  gradient {pair.gradient:+.4f}")
    yield f"    {_mark_words(pair.source, pair.source_words, terminal)}"
    yield f"    {_mark_words(pair.target, (pair.word,), terminal)}" + (" [end]" if pair.word < 0 else "")


def _mark_words(text: str, marked: Collection[int], terminal: Terminal) -> str:
    """Return a text with some words in bold or, where there are no colours, in brackets."""
    words = [escape_controls(word) for word in text.split()]
    return " ".join(
        (terminal.bold(word) if terminal.colour else f"[{word}]") if i in marked else word
        for i, word in enumerate(words)
    )
