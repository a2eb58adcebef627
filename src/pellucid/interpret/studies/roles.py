"""Roles of heads: relations between words that they follow, badges by fixed rules, and the file of badges."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.interpret.studies.importance import list_heads
from pellucid.interpret.trace.untrusted import read_strictly
from pellucid.store.directory import WEIGHTS, Bundle

POSITIONAL = 0.90  # share of largest weights at one offset that makes a head positional (Voita et al. 2019, 4.1)
FEWEST = 30  # fewest queries, or instances of a relation, from which a head gets a badge
ABOVE = 0.10  # absolute lead over the best fixed offset from which a head is said to align
# Share of queries on one of the two rarest pieces, and
# lead over chance, from which a head reads rare words.
RARE, ABOVE_CHANCE = 0.5, 0.2

RULES = {
    "-1, +1, ...": f"its largest weight is at that offset for {POSITIONAL:.0%} of the queries or more, by pieces or by "
    "words",
    "R": f"its largest weight is on one of the two rarest pieces for {RARE:.0%} of the queries or more, at least "
    f"{100 * ABOVE_CHANCE:.0f} points and 3 standard errors above chance",
    "A": f"its largest weight is on an aligned word at least {100 * ABOVE:.0f} points more often than the best fixed "
    "offset",
}


@dataclass(frozen=True)
class Badge:
    """Name for a head, the share that earned it, and the share it is to be compared with."""

    mark: str
    says: str
    share: float
    beside: float


@dataclass(frozen=True)
class QueryShare:
    """Share of a number of queries for which something holds; None if there was no query."""

    value: float | None
    queries: int


def positional_badges(by_unit: Mapping[str, Mapping[int, QueryShare]]) -> list[Badge]:
    """Return a badge for the best offset by pieces and for the best by words, where it reaches the limit.

    If both have the same offset, only the better one is returned.
    """
    badges: dict[int, Badge] = {}
    for unit, offsets in by_unit.items():
        shares: dict[int, float] = {}
        for d, share in offsets.items():
            if share.value is not None and share.queries >= FEWEST:
                shares[d] = share.value
        if not shares:
            continue
        # of equal shares the nearest offset
        d = max(shares, key=lambda d: (shares[d], -abs(d)))
        if shares[d] >= POSITIONAL and (d not in badges or shares[d] > badges[d].share):
            says = f"{shares[d]:.0%} of its largest weights are {_describe_offset(d)}, {unit} by {unit}"
            badges[d] = Badge(f"{d:+d}" if d else "0", says, shares[d], POSITIONAL)
    return list(badges.values())


def _describe_offset(offset: int) -> str:
    """An offset in words.

    >>> _describe_offset(-1), _describe_offset(0), _describe_offset(2)
    ('1 place before', 'at the same place', '2 places after')
    """
    if not offset:
        return "at the same place"
    places = f"{abs(offset)} place{'s' if abs(offset) > 1 else ''}"
    return f"{places} {'before' if offset < 0 else 'after'}"


def rare_word_badges(
    rarest: QueryShare, two_rarest: QueryShare, chance: float | None, error: float | None
) -> list[Badge]:
    """Return a badge if the two rarest pieces are read often enough."""
    if two_rarest.value is None or chance is None or error is None or two_rarest.queries < FEWEST:
        return []
    # where sentences are few, three standard errors ask for more than the fixed lead
    if two_rarest.value < RARE or two_rarest.value < chance + max(ABOVE_CHANCE, 3 * error):
        return []

    says = (
        f"{two_rarest.value:.0%} of its largest weights are on one of the two rarest pieces, "
        f"{rarest.value or 0:.0%} on the rarest; by chance {chance:.0%} would be on the two"
    )
    return [Badge("R", says, two_rarest.value, chance)]


def relation_badges(relation: "FollowedRelation", head: int) -> list[Badge]:
    """Return a badge if a head reads the aligned word clearly more often than always reading one fixed place would."""
    share, baseline = relation.shares[head], relation.baseline
    # a head that always reads one offset hits many words; that alone earns no badge
    if relation.instances < FEWEST or share < baseline + ABOVE:
        return []

    says = (
        f"{relation.relation}: hit in {share:.0%} of {relation.instances:,}; "
        f"always reading {_describe_offset(relation.offset)} hits {baseline:.0%}"
    )
    return [Badge("A", says, share, baseline)]


@dataclass(frozen=True)
class FollowedRelation:
    """Frequency with which each head of an attention reads the word that a relation leads to.

    `shares` are of the instances, one for each head; `baseline` is what always reading the word
    `offset` places on would reach, with the best offset there is.
    """

    relation: str
    attention: str
    shares: list[float]
    baseline: float
    offset: int
    instances: int


class RelationCounts:
    """Hits of each head, and the distances of the right words."""

    def __init__(self) -> None:
        self.hits: dict[str, Float[Tensor, " H"]] = {}
        self.instances: Counter[str] = Counter()
        self.apart: dict[str, Counter[int]] = {}

    def add(
        self,
        name: str,
        most_read: Int[Tensor, "H W"],
        right_words: Mapping[int, Sequence[int]],
    ) -> None:
        """Count a sentence: `most_read` is the word that each word reads most."""
        distances = self.apart.setdefault(name, Counter())
        for reader, targets in right_words.items():
            hit = torch.isin(most_read[:, reader], torch.tensor(list(targets)))
            self.hits[name] = self.hits.get(name, 0.0) + hit.double()
            self.instances[name] += 1
            distances.update({word - reader for word in targets})

    def as_followed(self, relation: str, attention: str) -> FollowedRelation | None:
        """Return how often each head follows a relation; None where there was no instance."""
        count = self.instances[relation]
        if not count:
            return None
        # of equally good offsets the nearest, and of those the one to the right
        offset, baseline_hits = max(self.apart[relation].items(), key=lambda row: (row[1], -abs(row[0]), row[0]))
        return FollowedRelation(
            relation,
            attention,
            (self.hits[relation] / count).tolist(),
            baseline_hits / count,
            offset,
            count,
        )


LARGEST_FILE = 2**23  # most bytes that such a file may have; the file of a large model has some 100 kB

FORMAT = 1


@dataclass(frozen=True)
class BadgedHead:
    """One head: its badges, the cost of its silence with the standard error, and the gradient of the loss in it."""

    attention: str
    head: int
    badges: list[Badge]
    silent: float
    error: float | None
    gradient: float


@dataclass(frozen=True)
class HeadBadges:
    """Roles and importance of every head of a model as a file has them, with the SHA-256 of the weights."""

    format: int
    sha256: str
    pairs: int
    loss: float
    rules: dict[str, str]
    heads: list[BadgedHead]
    model: str = ""


def badges_path(bundle: Bundle) -> Path:
    """Return where the page looks for the badges: runs/demo/best.heads.json for runs/demo/best."""
    return bundle.directory.with_name(f"{bundle.directory.name}.heads.json")


def read_badges(bundle: Bundle) -> dict[str, Any]:
    """Read the badges of a model, trusting nothing in the file.

    Raises ValueError, saying how to make the file, where there is none, where it belongs to another
    model, or where it holds anything else than badges of these heads.
    """
    path = badges_path(bundle)
    command = f"pellucid inspect heads {bundle.directory} --source FILE --target FILE --badges {path}"
    if not path.is_file():
        raise ValueError(f"the heads of this model were not studied; run: {command}")
    # Before reading, since any file that lies there would be in memory whole.
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} has more than {LARGEST_FILE:,} bytes and is no file of badges; run: {command}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}; run: {command}") from None

    if problem := badges_problem(content, bundle):
        raise ValueError(f"{path} {problem}; run: {command}")
    return content


def badges_problem(content: object, bundle: Bundle) -> str | None:
    """Return what keeps a value from being the badges of this model, as the end of a sentence about its file."""
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        return "is no file of badges that this program reads"
    weights_hash = bundle.manifest.get("files", {}).get(WEIGHTS, {}).get("sha256")

    # heads of other weights have other roles, even in a model of equal shape
    if not weights_hash or content.get("sha256") != weights_hash:
        return "was made with other weights than this model has"
    try:
        badges = read_strictly(HeadBadges, content, "badges")
    except ValueError as error:
        return f"is damaged: {error}"

    if sorted((head.attention, head.head) for head in badges.heads) != sorted(list_heads(bundle.model.config)):
        return "names other heads than this model has"
    return None
