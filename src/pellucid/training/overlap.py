"""Training pairs that share a sentence with a named dev set, as `pellucid check --against` finds them."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pellucid.data.context import split_context
from pellucid.data.corpus import SentencePairs, SkippedPairs, describe_place
from pellucid.data.text.bare_text import SHORTEST_LEAK, bare_text

DEV_SENTENCE = "a sentence of the dev set"  # the reason for leaving out a pair

# The languages of a direction, and both sides as bare texts.
_DevPair = tuple[frozenset[str], tuple[str, str]]


class DevOverlap:
    """Sentences of the named dev sets, and how many of their pairs stand in the training text.

    Sentences are compared without case, punctuation and spaces. A training pair shares a sentence
    with a dev set if one of its sides is a sentence there, of 12 letters or more: shorter ones may
    stand in any text.
    """

    def __init__(self, dev_sets: Iterable[tuple[Collection[str], SentencePairs]], allowed: bool):
        """Collect the sentences of dev sets, each with the languages of its direction.

        Of a model of one direction these are none. Where the overlap is `allowed`, it is counted
        and no pair is left out.
        """
        self.allowed = allowed
        self.sharing = 0  # training pairs that share a sentence with a dev set
        self._pairs, self._sentences = list[_DevPair](), dict[frozenset[str], set[str]]()
        for languages, dev in dev_sets:
            direction = frozenset(languages)
            sentences = self._sentences.setdefault(direction, set())
            for source, target in zip(dev.sources, dev.targets, strict=True):
                pair = _bare_pair(source, target)
                self._pairs.append((direction, pair))
                sentences.update(text for text in pair if len(text) >= SHORTEST_LEAK)

        self._found = dict.fromkeys(self._pairs, False)

    def filter_rows(
        self,
        rows: Iterable[tuple[int, str, str]],
        file: str,
        languages: Collection[str],
        skipped: SkippedPairs,
        is_range: bool = False,
    ) -> Iterator[tuple[int, str, str]]:
        """Yield the rows (line, source, target) of a file that share no sentence with a dev set.

        The others are counted in `skipped`; where they are allowed they are yielded, too. Raises
        ValueError, at the end, if no row remains; of a range of a file's lines none may.
        """
        direction = frozenset(languages)  # the other way round, the same two sentences are learned
        sentences, left_out, remaining = self._sentences.get(direction, set()), 0, 0
        for row in rows:
            line, source, target = row
            pair = _bare_pair(source, target)
            for either in (pair, (pair[1], pair[0])):
                if (direction, either) in self._found:
                    self._found[direction, either] = True
            is_sharing = pair[0] in sentences or pair[1] in sentences
            self.sharing += is_sharing
            if is_sharing and not self.allowed:
                left_out += 1
                skipped.add(DEV_SENTENCE, describe_place(file, line))
            else:
                remaining += 1
                yield row

        if left_out and not remaining and not is_range:
            raise ValueError(
                f"{file}: every pair shares a sentence with the dev set, so none is left to train "
                "on; name another dev set, or keep these pairs with --set "
                "data.allow_overlap=true"
            )

    @property
    def standing(self) -> int:
        """Number of dev pairs that were found in the training text."""
        return sum(self._found[pair] for pair in self._pairs)

    def row(self) -> dict[str, Any]:
        """Return the counts, and which of the dev pairs were found, as shards record them."""
        found = [number for number, pair in enumerate(self._pairs) if self._found[pair]]
        return {"dev_pairs": self.standing, "training_pairs": self.sharing, "found": found}

    def notes(self) -> list[str]:
        """Return the sentence about what was found, none where there is no overlap."""
        standing, total = self.standing, len(self._pairs)
        stands = f"{standing:,} of the {total:,} dev pairs also stand in the training text"
        if not self.sharing:
            if not standing:
                return []
            shorter = f"their sentences are shorter than {SHORTEST_LEAK} letters"
            return [f"{stands}, and are kept: {shorter}, as in any text"]

        pairs, are = f"{self.sharing:,} training pairs that share", "are"
        if self.sharing == 1:
            pairs, are = "1 training pair that shares", "is"
        found = f"{stands}; {pairs} a sentence of {SHORTEST_LEAK} letters or more with the dev set"
        if self.allowed:
            return [
                f"{found} {are} kept, as data.allow_overlap says, so dev scores will be too good"
            ]

        note = (
            f"{found} {are} left out, so that dev scores are those of new text (--set "
            "data.allow_overlap=true keeps such pairs)"
        )
        short = 0
        for direction, pair in self._pairs:
            short += self._found[direction, pair] and max(map(len, pair)) < SHORTEST_LEAK
        if short:
            note += f"; {short:,} of the dev pairs have shorter sentences and stay"
        return [note]


def _bare_pair(source: str, target: str) -> tuple[str, str]:
    return bare_text(split_context(source)[1]), bare_text(target)
