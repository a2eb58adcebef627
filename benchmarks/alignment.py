"""Alignment error rates of cross-attention, in every way it can be read, against known word alignments.

    PELLUCID_DATA=... python -m benchmarks.alignment

Needs the models of `pellucid demo` and `python -m benchmarks.quality multi30k` and `tatoeba` under runs/, and one more,
which has its norms after and six decoder layers:

    pellucid train runs/demo/run.toml --out runs/post --set model.norm=post --set model.d_model=96 \\
      --set model.encoder_layers=3 --set model.decoder_layers=6 --set model.dropout=0.1 --set optim.peak=0.0015

Writes benchmarks/results/alignment.md.
"""

import gzip
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid import bundle
from pellucid.bundle import Bundle
from pellucid.data.phrasebook import split
from pellucid.data.phrasebook import words as tokens
from pellucid.data.tokenizer import BOS
from pellucid.decode.alignment import align, cross_norms, links, words
from pellucid.inspect.record import Record

BATCH = 50
Alignment = set[tuple[int, int]]


@dataclass(frozen=True)
class Gold:
    """Sentences with the links a person, or a grammar, drew."""

    sources: list[str]
    targets: list[str]
    sure: list[Alignment]
    possible: list[Alignment]


def main() -> None:
    """Measure every way on both sets and write the page."""
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("usage: PELLUCID_DATA=... python -m benchmarks.alignment")
    europarl = pharaoh(Path(os.environ["PELLUCID_DATA"]) / "alignments", "europarl_en-de", "de")
    sets = {"demo": phrasebook(), "post": phrasebook(), "tatoeba": phrasebook(), "multi30k": europarl}
    rates = {run: measure(bundle.load(HOUSE / "runs" / run / "best"), gold) for run, gold in sets.items()}
    (RESULTS / "alignment.md").write_text("\n".join(page(rates)) + "\n", encoding="utf-8")


def measure(found: Bundle, gold: Gold) -> dict[str, float]:
    """The alignment error rate of each way to read the cross-attention of a model."""
    sources, targets = found.tokenizer.encode_source(gold.sources), found.tokenizer.encode_target(gold.targets)
    read = [words(found.tokenizer.source_pieces(s[:-1]), text) for s, text in zip(sources, gold.sources, strict=True)]
    written = [
        words(found.tokenizer.target_pieces(t[:-1]), text) for t, text in zip(targets, gold.targets, strict=True)
    ]
    pairs = list(zip(sources, targets, strict=True))

    def rate(link: Callable[..., list[tuple[int, int]]], matrices: list[Tensor]) -> float:
        return aer([set(link(*each)) for each in zip(matrices, read, written, strict=True)], gold.sure, gold.possible)

    rates = {"the best that one link for each target word can be": floor(gold)}
    rates["word j to the word as far along"] = aer(diagonal(gold), gold.sure, gold.possible)
    norms = [cross_norms(found.model, [source], [target])[:, 0] for source, target in pairs]
    weights = [patterns(found, source, target) for source, target in pairs]
    for kind, every in (("weights", weights), ("norms", norms)):
        for side, rows in (("input", slice(1, None)), ("output", slice(None, -1))):
            told = [each[:, rows, :-1] for each in every]
            for layer in range(len(told[0])):
                one = [each[layer : layer + 1] for each in told]
                rates[f"{kind}, {side}, layer {layer}, arg-max"] = rate(one_each, one)
                rates[f"{kind}, {side}, layer {layer}, shares"] = rate(links, one)
            largest = [int(each[:, rows, :-1].sum(dim=(1, 2)).argmax()) for each in norms]
            one = [each[layer : layer + 1] for each, layer in zip(told, largest, strict=True)]
            for how, link in (("arg-max", one_each), ("shares", links)):
                rates[f"{kind}, {side}, layer of the largest norms, {how}"] = rate(link, one)
                rates[f"{kind}, {side}, all layers, {how}"] = rate(link, told)
    ours: list[Alignment] = []
    for at in range(0, len(pairs), BATCH):
        part = slice(at, at + BATCH)
        texts = gold.sources[part], gold.targets[part]
        ours += map(set, align(found.model, found.tokenizer, sources[part], targets[part], *texts))
    assert aer(ours, gold.sure, gold.possible) == rates["norms, output, all layers, shares"]
    return rates


def patterns(found: Bundle, source: list[int], target: list[int]) -> Tensor:
    """Attention weights, the mean of a layer's heads: layer, row, source position."""
    seen = Record("decoder.*.cross.pattern")
    with torch.no_grad():
        found.model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]), watch=seen)
    return torch.stack([pattern[0].mean(dim=0) for pattern in seen.values()])


def one_each(norms: Tensor, read: list[range], written: list[range]) -> list[tuple[int, int]]:
    """For each target word the source word with the largest sum, as the papers do it."""
    rows = [norms.sum(dim=0)[word.start : word.stop].sum(dim=0) for word in written]
    return [
        (max(range(len(read)), key=lambda i: row[read[i].start : read[i].stop].sum().item()), j)
        for j, row in enumerate(rows)
    ]


def aer(found: list[Alignment], sure: list[Alignment], possible: list[Alignment]) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|) over a whole set, P with all of S in it (Och and Ney 2003).

    >>> aer([{(0, 0), (1, 1)}], [{(0, 0)}], [{(1, 1)}]), aer([{(0, 1)}], [{(0, 0), (1, 1)}], [set()])
    (0.0, 1.0)
    """
    right = asked = 0
    for drawn, s, p in zip(found, sure, possible, strict=True):
        right += len(drawn & s) + len(drawn & (p | s))
        asked += len(drawn) + len(s)
    return 1 - right / asked


def floor(gold: Gold) -> float:
    """What one link for each target word can reach: a right one where there is any."""
    best = []
    for sure, target in zip(gold.sure, gold.targets, strict=True):
        right = {j: i for i, j in sure}
        best.append({(right.get(j, -1), j) for j in range(len(target.split()))})
    return aer(best, gold.sure, gold.possible)


def diagonal(gold: Gold) -> list[Alignment]:
    """Each target word linked to the source word at the proportional place."""
    return [
        {(j * len(s.split()) // len(t.split()), j) for j in range(len(t.split()))}
        for s, t in zip(gold.sources, gold.targets, strict=True)
    ]


def phrasebook(count: int = 1000) -> Gold:
    """Held-out sentences of the built-in grammar; links between tokens become links between their words."""
    drawn = split(train=0, dev=0, test=count).test
    sure = [
        {(left[i], right[j]) for i, j in each.links}
        for each in drawn
        for left, right in [(word_of_tokens(each.source), word_of_tokens(each.target))]
    ]
    return Gold([each.source for each in drawn], [each.target for each in drawn], sure, sure)


def word_of_tokens(text: str) -> list[int]:
    """For each token of the phrasebook, which takes punctuation apart, its word as split at white space.

    >>> word_of_tokens("Yes, he did.")
    [0, 0, 1, 2, 2]
    """
    return [number for number, word in enumerate(text.split()) for _ in tokens(word)]


def pharaoh(folder: Path, name: str, language: str) -> Gold:
    """English and another language with links: i-j is sure, ipj possible."""
    columns = {
        kind: gzip.decompress((folder / f"{name}.{kind}.gz").read_bytes()).decode().split("\n")[:-1]
        for kind in ("en", language, f"en-{language}.align")
    }
    gold = columns[f"en-{language}.align"]
    return Gold(columns["en"], columns[language], parsed(gold, "-"), parsed(gold, "p"))


def parsed(lines: Sequence[str], mark: str) -> list[Alignment]:
    """The links of one kind.

    >>> parsed(["0-0 1p2"], "p")
    [{(1, 2)}]
    """
    pairs = [[link.split(mark) for link in line.split() if mark in link] for line in lines]
    return [{(int(i), int(j)) for i, j in line} for line in pairs]


def page(rates: dict[str, dict[str, float]]) -> Iterator[str]:
    """The table, and how it is read."""
    yield from (
        "# Word alignments from cross-attention\n",
        f"Made by `PELLUCID_DATA=... python -m benchmarks.alignment` on {machine()}.\n",
        SETS,
        f"| way | {' | '.join(rates)} |",
        "|---|" + "---|" * len(rates),
    )
    for way in max(rates.values(), key=len):
        shown = [f"{100 * column[way]:.1f}" if way in column else "" for column in rates.values()]
        yield f"| {way} | {' | '.join(shown)} |"
    yield READING


SETS = """\
Alignment error rates in per cent, lower is better (Och and Ney 2003); words are split at white space, and the models
read the references.

- demo, post, tatoeba: 1,000 held-out sentences of the built-in grammar, whose links are known. *demo*: the model of
  `pellucid demo`, pre-norm, 4 decoder layers. *post*: the same data, post-norm, 6 decoder layers
  (`benchmarks/alignment.py` says how it is trained). *tatoeba*: trained on Tatoeba, which has other words; pre-norm, 3.
- multi30k: 50 sentences of Europarl (`europarl_en-de` of PELLUCID_DATA), very far from the image captions the model was
  trained on: to be compared within the column only.
"""

READING = """
- *output*: the row that writes a target piece; *input*: the row that reads it, one further (Chen et al. 2020).
- *weights*: the mean of a layer's heads; *norms*: the length of what a source position adds (Kobayashi et al. 2020).
- *arg-max*: for each target word the source word with the largest sum, as in those papers.
- *shares*: a pair has the product of its shares of what the target word took and of what the source word gave, summed
  over the layers; the best pair of each word, of either side, is a link.

What `src/pellucid/decode/alignment.py` does is the row *norms, output, all layers, shares*. In published models of six
post-norm layers the input side is the better one, in their lower layers (Chen et al. 2020; Kobayashi et al. 2020); in
none of these is it. Weights do as well as norms in the three pre-norm models, and a little worse in the post-norm one.
"""


if __name__ == "__main__":
    main()
