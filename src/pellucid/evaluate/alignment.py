"""How good word alignments are: error rate, precision and recall against gold links, sure and possible."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Alignment = set[tuple[int, int]]
"""Links of a source word and a target word, both counted from 0."""

LINK = re.compile("([0-9]{1,6})([-p])([0-9]{1,6})")


@dataclass(frozen=True)
class GoldLinks:
    """The links of each sentence that people, or a grammar, drew: every sure one is possible too."""

    sure: list[Alignment]
    possible: list[Alignment]

    def __len__(self) -> int:
        return len(self.sure)


@dataclass(frozen=True)
class AlignmentRates:
    """Error rate, precision and recall, as shares of 1, and the number of links they were counted from.

    Precision is None where nothing was linked, recall where nothing is sure, and the error rate where both are so.
    """

    aer: float | None
    precision: float | None
    recall: float | None
    links: int


def alignment_rates(found: Sequence[Alignment], gold: GoldLinks) -> AlignmentRates:
    """With A found, S sure and P possible: AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision |A & P| / |A|, recall
    |A & S| / |S|, each summed over all sentences first (Och and Ney 2003, 5.1).

    >>> alignment_rates([{(0, 0), (1, 1), (2, 1)}], GoldLinks([{(0, 0), (2, 2)}], [{(0, 0), (1, 1), (2, 2)}]))
    Rates(aer=0.4, precision=0.6666666666666666, recall=0.5, links=3)

    Raises ValueError for unequal numbers of sentences, and for a sure link that is not possible: the error rate would
    no longer be one.
    """
    if not len(found) == len(gold.sure) == len(gold.possible):
        raise ValueError(f"links of {len(found):,} sentences, gold of {len(gold):,}: each sentence needs both")
    for number, (sure, possible) in enumerate(zip(gold.sure, gold.possible, strict=True), start=1):
        if not sure <= possible:
            i, j = min(sure - possible)
            raise ValueError(
                f"sentence {number}: {i}-{j} is a sure link and no possible one; a sure link is always both"
            )
    return rates_of_counts(
        drawn=sum(map(len, found)),
        right_sure=sum(len(a & s) for a, s in zip(found, gold.sure, strict=True)),
        right_possible=sum(len(a & p) for a, p in zip(found, gold.possible, strict=True)),
        sure=sum(map(len, gold.sure)),
    )


def rates_of_counts(drawn: int, right_sure: int, right_possible: int, sure: int) -> AlignmentRates:
    """The same from |A|, |A & S|, |A & P| and |S|."""
    return AlignmentRates(
        1 - (right_sure + right_possible) / (drawn + sure) if drawn + sure else None,
        right_possible / drawn if drawn else None,
        right_sure / sure if sure else None,
        drawn,
    )


def read_links(lines: Iterable[str]) -> GoldLinks:
    """A line for each sentence: `i-j` is sure, `ipj` possible, counted from 0 (without p: the Pharaoh format).

    >>> read_links(["1p2", "0-0"])
    Gold(sure=[set(), {(0, 0)}], possible=[{(1, 2)}, {(0, 0)}])

    Raises ValueError, with the number of the line, for anything else.
    """
    gold = GoldLinks([], [])
    for number, line in enumerate(lines, start=1):
        links = [(word, LINK.fullmatch(word)) for word in line.split()]
        for word, match in links:
            if match is None:
                raise ValueError(
                    f"line {number}: {word!r:.40} is no link; write 3-4 for a sure and 3p4 for a possible one"
                )
        drawn = [(match[2], (int(match[1]), int(match[3]))) for _, match in links if match]
        gold.sure.append({link for kind, link in drawn if kind == "-"})
        gold.possible.append({link for _, link in drawn})
    return gold


def require_inside(
    gold: GoldLinks, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], hint: str = ""
) -> None:
    """ValueError, with a hint, for a link of a word that its sentence, given as its words, does not have."""
    for number, (links, source, target) in enumerate(zip(gold.possible, sources, targets, strict=True), start=1):
        for i, j in sorted(links):
            if i >= len(source) or j >= len(target):
                raise ValueError(
                    f"line {number}: link {i}-{j} is not among {len(source)} source and {len(target)} target words, "
                    f"counted from 0{hint}"
                )
