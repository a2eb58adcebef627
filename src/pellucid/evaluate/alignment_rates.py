"""Scores of word alignments: error rate, precision and recall against gold links, sure and possible."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Alignment = set[tuple[int, int]]  # links of a source word and a target word, both counted from 0
# A link as it is written: 3-4 is sure, 3p4 possible.
LINK = re.compile("([0-9]{1,6})([-p])([0-9]{1,6})")


@dataclass(frozen=True)
class GoldLinks:
    """Gold links of each sentence, drawn by people or by a grammar; every sure link is possible, too."""

    sure: list[Alignment]
    possible: list[Alignment]

    def __len__(self) -> int:
        return len(self.sure)


@dataclass(frozen=True)
class AlignmentRates:
    """Error rate, precision and recall, as shares of 1, and the number of links they were computed from.

    Precision is None where nothing was linked, recall where nothing is sure, and the error rate
    where both are so.
    """

    aer: float | None
    precision: float | None
    recall: float | None
    links: int


def alignment_rates(alignments: Sequence[Alignment], gold: GoldLinks) -> AlignmentRates:
    """Return error rate, precision and recall of `alignments` against gold links (Och and Ney 2003, 5.1).

    With A the given links, S the sure and P the possible ones: AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision
    |A & P| / |A|, recall |A & S| / |S|, each count summed over all sentences first.

    >>> alignment_rates([{(0, 0), (1, 1), (2, 1)}], GoldLinks([{(0, 0), (2, 2)}], [{(0, 0), (1, 1), (2, 2)}]))
    AlignmentRates(aer=0.4, precision=0.6666666666666666, recall=0.5, links=3)

    Raises ValueError for unequal numbers of sentences, and for a sure link that is not possible.
    """
    if not len(alignments) == len(gold.sure) == len(gold.possible):
        raise ValueError(
            f"links of {len(alignments):,} sentences, gold of {len(gold):,}: each sentence needs "
            "both"
        )

    for number, (sure, possible) in enumerate(zip(gold.sure, gold.possible, strict=True), start=1):
        # The formula would not give an error rate any more.
        if not sure <= possible:
            i, j = min(sure - possible)
            raise ValueError(
                f"sentence {number}: {i}-{j} is a sure link but not a possible one; every sure "
                "link is both"
            )

    # Summed over all sentences before dividing, so that every link has the same weight.
    return rates_of_counts(
        drawn=sum(map(len, alignments)),
        right_sure=sum(len(a & s) for a, s in zip(alignments, gold.sure, strict=True)),
        right_possible=sum(len(a & p) for a, p in zip(alignments, gold.possible, strict=True)),
        sure=sum(map(len, gold.sure)),
    )


def rates_of_counts(drawn: int, right_sure: int, right_possible: int, sure: int) -> AlignmentRates:
    """Return the rates from |A|, |A & S|, |A & P| and |S|."""
    return AlignmentRates(
        1 - (right_sure + right_possible) / (drawn + sure) if drawn + sure else None,
        right_possible / drawn if drawn else None,
        right_sure / sure if sure else None,
        drawn,
    )


def read_links(lines: Iterable[str]) -> GoldLinks:
    """Read gold links from lines of `i-j` (sure) and `ipj` (possible), one line a sentence, counted from 0.

    Without p, this is the Pharaoh format.

    >>> read_links(["1p2", "0-0"])
    GoldLinks(sure=[set(), {(0, 0)}], possible=[{(1, 2)}, {(0, 0)}])

    Raises ValueError, with the number of the line, for anything else.
    """
    gold = GoldLinks([], [])
    for number, line in enumerate(lines, start=1):
        links = [(word, LINK.fullmatch(word)) for word in line.split()]
        for word, match in links:
            if match is None:
                raise ValueError(
                    f"line {number}: {word!r:.40} is no link; write 3-4 for a sure and 3p4 for a "
                    "possible one"
                )
        drawn = [(match[2], (int(match[1]), int(match[3]))) for _, match in links if match]
        gold.sure.append({link for kind, link in drawn if kind == "-"})
        # All links of the line: a sure one is possible, too.
        gold.possible.append({link for _, link in drawn})

    return gold


def require_inside(
    gold: GoldLinks,
    sources: Sequence[Sequence[str]],
    targets: Sequence[Sequence[str]],
    hint: str = "",
) -> None:
    """Raise ValueError, ending in `hint`, for a link to a word that its sentence does not have."""
    for number, (links, source, target) in enumerate(
        zip(gold.possible, sources, targets, strict=True), start=1
    ):
        for i, j in sorted(links):
            if i >= len(source) or j >= len(target):
                raise ValueError(
                    f"line {number}: link {i}-{j} is not among {len(source)} source and "
                    f"{len(target)} target words, counted from 0{hint}"
                )
