"""Books whose alignment is known: parallel sentences, some of them joined, split or dropped on one side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from pellucid.data.text.sentences import sentence_ends
from pellucid.workflows.align.beads import Bead

Links = set[tuple[int, int]]
"""Numbers of a source and a target sentence that belong together."""


@dataclass(frozen=True)
class DamagedBooks:
    """Two books, and which of their sentences belong together."""

    sources: list[str]
    targets: list[str]
    links: Links


def damage_books(sources: Sequence[str], targets: Sequence[str], share: float, seed: int) -> DamagedBooks:
    """Join, split at the end of a sentence, or drop lines: of a share of the pairs, one side or the other."""
    random = Random(seed)
    damages: list[dict[int, str]] = [{}, {}]
    for number in range(len(sources)):
        if random.random() < share:
            damages[random.randrange(2)][number] = random.choice(("join", "split", "drop"))
    damaged = [_damage_side(lines, damages[side], random) for side, lines in enumerate((sources, targets))]

    links: Links = set()
    places: dict[int, list[int]] = {}
    for place, (_, numbers) in enumerate(damaged[1]):
        for number in numbers:
            places.setdefault(number, []).append(place)
    for place, (_, numbers) in enumerate(damaged[0]):
        links |= {(place, other) for number in numbers for other in places.get(number, [])}
    return DamagedBooks([text for text, _ in damaged[0]], [text for text, _ in damaged[1]], links)


def _damage_side(lines: Sequence[str], damages: dict[int, str], random: Random) -> list[tuple[str, list[int]]]:
    """Return the units of one side, each with the numbers of the lines that it is made of."""
    units: list[tuple[str, list[int]]] = []
    is_joined = False
    for number, line in enumerate(lines):
        damage = damages.get(number)
        if damage == "drop":
            continue
        ends = sentence_ends(line, 0, len(line)) if damage == "split" else [len(line)]
        cut = random.choice(ends[:-1]) if len(ends) > 1 else len(line)
        for part in filter(None, (line[:cut].strip(), line[cut:].strip())):
            if is_joined and units:
                text, numbers = units[-1]
                units[-1] = (f"{text} {part}", [*numbers, number])
                is_joined = False
            else:
                units.append((part, [number]))
        is_joined = damage == "join"
    return units


def list_links(beads: Iterable[Bead]) -> Links:
    """Return the links of an alignment: each source sentence of a bead with each of its target sentences."""
    return {(i, j) for bead in beads for i in bead.source for j in bead.target}


def measure_f1(links: Links, gold: Links) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2 * len(links & gold) / max(len(links) + len(gold), 1)
