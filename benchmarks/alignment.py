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
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid import bundle
from pellucid.bundle import Bundle
from pellucid.data.phrasebook import split_into_words as tokens
from pellucid.data.phrasebook import split_phrases
from pellucid.decode.alignment import is_punctuation
from pellucid.evaluate.alignment import Alignment, GoldLinks, alignment_rates, rates_of_counts, read_links
from pellucid.inspect.alignment import DEFAULT_READING as USED
from pellucid.inspect.alignment import (
    EncodedPair,
    LinkCounts,
    choose_readings,
    default_links,
    encode_alignment_pairs,
    measure_cross_attention,
    measure_readings,
)

OFFSETS = (-2, -1, 0, 1, 2)
"""Rows looked at, from the one that writes a word; the next reads it."""

SENTENCES = 500
"""Of a test set, whose links a dictionary gives."""


@dataclass(frozen=True)
class Pairs:
    """Sentences, the same with a space wherever words part, and their links."""

    sources: list[str]
    targets: list[str]
    source_words: list[str]
    target_words: list[str]
    gold: GoldLinks


def main() -> None:
    """Measure every way on all sets and write the page."""
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("usage: PELLUCID_DATA=... python -m benchmarks.alignment")
    data = Path(os.environ["PELLUCID_DATA"])
    grammar = phrasebook()
    sets = {"demo": grammar, "post": grammar, "tatoeba": grammar, "multi30k": pharaoh(data / "alignments", "de")}
    models = {run: bundle.load_bundle(HOUSE / "runs" / run / "best") for run in sets}
    error_rates = {run: measure(models[run], pairs) for run, pairs in sets.items()}
    own = {
        "demo": grammar,
        "post": grammar,
        "tatoeba": by_dictionary(data / "tatoeba_en-es", "es", "test"),
        "multi30k": by_dictionary(data / "multi30k", "de", "test_2016_flickr"),
    }
    looked = {run: look(models[run], pairs) for run, pairs in own.items()}
    heads = {run: best_heads(models[run], pairs) for run, pairs in own.items()}
    (RESULTS / "alignment.md").write_text("\n".join(page(error_rates, looked, heads)) + "\n", encoding="utf-8")


def measure(found: Bundle, pairs: Pairs) -> dict[str, float]:
    """The alignment error rate of each way to read the cross-attention of a model."""
    gold = pairs.gold
    table = {
        "the best that one link for each target word can be": error_rate(best_of_one(gold), gold),
        "word j to the word as far along": error_rate(diagonal(pairs), gold),
    }
    prepared = prepare(found, pairs)
    reads = measure_readings(found.model, prepared, gold.sure, gold.possible)
    for each in reads:
        if each.reading.head is None:
            table[f"{each.reading}, one each"] = aer(each.best_source_word)
            table[f"{each.reading}, mutual"] = aer(each.mutually_best)
    for name, chosen in zip(
        ("the layer that disagrees least", "its layer of the largest norms"), choose_readings(reads), strict=True
    ):
        table[f"{name}, one each"], table[f"{name}, mutual"] = aer(chosen.best_source_word), aer(chosen.mutually_best)
    for side in ("output", "input"):
        of_side = [each for each in reads if each.reading.side == side and each.reading.head is not None]
        table[f"{side} side, the best head there is, one each"] = min(aer(each.best_source_word) for each in of_side)
    ours = error_rate([set(some) for some in default_links(found.model, prepared)], gold)
    assert ours == next(aer(each.mutually_best) for each in reads if each.reading == USED)
    return table


def look(found: Bundle, pairs: Pairs) -> dict[int, list[float]]:
    """For each layer, how often the row at each offset has its largest norm on a source word that is right.

    Of a target word of several pieces, what is counted from is the row that writes its first, or reads its last.
    """
    layers = found.model.config.decoder_layers
    right, asked = torch.zeros(layers, len(OFFSETS)), torch.zeros(len(OFFSETS))
    prepared = prepare(found, pairs)
    for numbers, every in measure_cross_attention(found.model, prepared):
        for n, norms in zip(numbers, every, strict=True):
            for column, offset in enumerate(OFFSETS):
                hits, times = looked_at(norms[:, 0], prepared[n], pairs.gold.sure[n], offset)
                right[:, column] += hits
                asked[column] += times
    return dict(enumerate((100 * right / asked).tolist()))


def looked_at(norms: torch.Tensor, pair: EncodedPair, gold: Alignment, offset: int) -> tuple[torch.Tensor, int]:
    """Of one pair: in each layer how many words have a row at an offset that looks at a right word; and of how many."""
    wanted: dict[int, set[int]] = {}
    for i, j in gold:
        wanted.setdefault(j, set()).add(i)
    hits, times = torch.zeros(len(norms)), 0
    heads = [i for i, word in enumerate(pair.source_words) if not word.punctuation]
    for j, some in wanted.items():
        word = pair.target_words[j]
        row = (word.pieces.start if offset <= 0 else word.pieces.stop - 1) + offset
        if word.punctuation or not 0 <= row < norms.shape[1]:
            continue
        of_words = torch.stack([norms[:, row, pair.source_words[i].pieces].sum(dim=1) for i in heads], dim=1)
        hits += torch.tensor([float(heads[best] in some) for best in of_words.argmax(dim=1).tolist()])
        times += 1
    return hits, times


def best_heads(found: Bundle, pairs: Pairs) -> dict[str, tuple[str, float]]:
    """On each side the head that has its largest weight on a right word for most target words, and for how many."""
    best = {}
    for each in measure_readings(found.model, prepare(found, pairs), pairs.gold.sure, pairs.gold.possible):
        name, share = each.reading, each.best_source_word.right_sure / each.best_source_word.sure
        if name.head is not None and name.kind == "weights" and share > best.get(name.side, ("", 0.0))[1]:
            best[name.side] = f"{name.layer}.{name.head}", share
    return best


def prepare(found: Bundle, pairs: Pairs) -> list[EncodedPair]:
    return encode_alignment_pairs(found.tokenizer, pairs.sources, pairs.targets, pairs.source_words, pairs.target_words)


def aer(counts: LinkCounts) -> float:
    return rates_of_counts(counts.drawn, counts.right_sure, counts.right_possible, counts.sure).aer or 0.0


def error_rate(found: list[Alignment], gold: GoldLinks) -> float:
    return alignment_rates(found, gold).aer or 0.0


def best_of_one(gold: GoldLinks) -> list[Alignment]:
    """What one link for each target word can reach: a right one where there is any."""
    return [{(i, j) for j, i in {j: i for i, j in sure}.items()} for sure in gold.sure]


def diagonal(pairs: Pairs) -> list[Alignment]:
    """Each target word linked to the source word at the proportional place."""
    lengths = [(len(s.split()), len(t.split())) for s, t in zip(pairs.source_words, pairs.target_words, strict=True)]
    return [{(j * source // target, j) for j in range(target)} for source, target in lengths]


def phrasebook(count: int = 1000) -> Pairs:
    """Held-out sentences of the built-in grammar, whose words and marks have known links."""
    drawn = split_phrases(train=0, dev=0, test=count).test
    texts = [[each.source for each in drawn], [each.target for each in drawn]]
    links = [set(each.links) for each in drawn]
    return Pairs(*texts, *([" ".join(tokens(text)) for text in some] for some in texts), GoldLinks(links, links))


def pharaoh(folder: Path, language: str) -> Pairs:
    """English and another language of Europarl, with the links that people drew."""
    columns = {kind: lines(folder / f"europarl_en-de.{kind}.gz") for kind in ("en", language, f"en-{language}.align")}
    texts = columns["en"], columns[language]
    return Pairs(*texts, *texts, read_links(columns[f"en-{language}.align"]))


def by_dictionary(folder: Path, language: str, test: str) -> Pairs:
    """Test sentences of a corpus, with the links between words that its training text shows to translate each other.

    A pair of words is linked where each stands once and is by far the other's likeliest partner: the best Dice
    coefficient of both, 0.4 or more, from five common lines or more. So few words are linked, and these rightly.
    """
    train = [lines(folder / f"train.{name}.gz") for name in ("en", language)]
    texts = [lines(folder / f"{test}.{name}.gz")[:SENTENCES] for name in ("en", language)]
    sides = [[[bare(word) for word in text.split()] for text in some] for some in texts]
    wanted = [{word for text in some for word in text if word} for some in sides]
    alone, together = (Counter(), Counter()), Counter()
    for pair in zip(*train, strict=True):
        there = [{bare(word) for word in text.split()} & some for text, some in zip(pair, wanted, strict=True)]
        for count, some in zip(alone, there, strict=True):
            count.update(some)
        together.update((a, b) for a in there[0] for b in there[1])
    links = []
    for left, right in zip(*sides, strict=True):
        dice = {
            (i, j): 2 * together[a, b] / (alone[0][a] + alone[1][b])
            for i, a in enumerate(left)
            for j, b in enumerate(right)
            if together[a, b] >= 5 and left.count(a) == right.count(b) == 1
        }
        rivals = {pair: max(v for (i, j), v in dice.items() if i == pair[0] or j == pair[1]) for pair in dice}
        links.append({pair for pair, value in dice.items() if value >= 0.4 and value == rivals[pair]})
    return Pairs(*texts, *texts, GoldLinks(links, links))


def bare(word: str) -> str:
    """A word in small letters, without the marks around it."""
    inside = [n for n, letter in enumerate(word) if not is_punctuation(letter)]
    return word[inside[0] : inside[-1] + 1].lower() if inside else ""


def lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def page(
    error_rates: dict[str, dict[str, float]],
    looked: dict[str, dict[int, list[float]]],
    heads: dict[str, dict[str, tuple[str, float]]],
) -> Iterator[str]:
    """The tables, and how they are read."""
    yield from (
        "# Word alignments from cross-attention\n",
        f"Made by `PELLUCID_DATA=... python -m benchmarks.alignment` on {machine()}.\n",
        SETS,
        f"| way | {' | '.join(error_rates)} |",
        "|---|" + "---|" * len(error_rates),
    )
    for way in ordered([[*column] for column in error_rates.values()]):
        shown = [f"{100 * column[way]:.1f}" if way in column else "" for column in error_rates.values()]
        yield f"| {way} | {' | '.join(shown)} |"
    yield READING
    yield f"| model, layer | {' | '.join(f'{offset:+d}' if offset else '0' for offset in OFFSETS)} |"
    yield "|---|" + "---|" * len(OFFSETS)
    for run, layers in looked.items():
        yield from (f"| {run}, {n} | {' | '.join(f'{share:.0f}' for share in row)} |" for n, row in layers.items())
    yield "\nThe best single head by weights, as layer.head, with the share of the known links that it finds:\n"
    yield "| side | " + " | ".join(heads) + " |"
    yield "|---|" + "---|" * len(heads)
    for side in ("output", "input"):
        cells = [f"{name}: {100 * share:.0f}" for name, share in (each[side] for each in heads.values())]
        yield f"| {side} | {' | '.join(cells)} |"
    yield WHY


def ordered(columns: Sequence[Sequence[str]]) -> list[str]:
    """All names, in the order of the column that has most of them; the others' stand at the end.

    >>> ordered([["a", "c"], ["a", "b", "c"]])
    ['a', 'b', 'c']
    """
    return [*dict.fromkeys(name for column in sorted(columns, key=len, reverse=True) for name in column)]


SETS = """\
Alignment error rates in per cent, lower is better (Och and Ney 2003); the models read the references.

- demo, post, tatoeba: 1,000 held-out sentences of the built-in grammar, with its links; punctuation marks count as
  words. *demo*: the model of `pellucid demo`, pre-norm, 4 decoder layers. *post*: the same data, post-norm, 6 decoder
  layers (`benchmarks/alignment.py` says how it is trained). *tatoeba*: trained on Tatoeba, which has other words;
  pre-norm, 3.
- multi30k: 50 sentences of Europarl (`europarl_en-de` of PELLUCID_DATA), very far from the image captions the model was
  trained on: to be compared within the column only.
"""

READING = """
- *output*: the row that writes a target piece; *input*: the row that reads it, one further (Chen et al. 2020).
- *weights*: the mean of a layer's heads; *norms*: the length of what a source position adds (Kobayashi et al. 2020).
- *one each*: for each target word the source word with the largest sum, as in those papers.
- *mutual*: a pair has the product of its shares of what the target word took and of what the source word gave, summed
  over the layers; the best pair of each word, of either side, is a link.
- *the layer that disagrees least*: of both sides, by norms, the layer whose best source word of each target word and
  best target word of each source word are most often the same. Known without gold.

In all of them the punctuation around a word is left out of its sums, and marks are linked with marks only. What
translations are aligned by is the row *output side, norms, all layers, mutual*.

## Which row looks at the source of a word

How often, in per cent, the row so many places on from the one that writes a target word has its largest norm on the
right source word: 0 is the output side, +1 the input side. demo and post as above; tatoeba and multi30k on 500
sentences of their own test sets, with the links that a dictionary made of their training text is sure of.
"""

WHY = """
In published models of six post-norm layers, trained on millions of sentences, the input side is the better one, in
their lower layers (Chen et al. 2020; Kobayashi et al. 2020). It is in none of these, and no easy reason holds:

- Rows are not taken for one another: a test changes one piece of the target and sees which rows change.
- It is neither the norm nor the number of decoder layers alone: *post* has both as published. Its lower layers look
  almost evenly, and the upper ones at the word to be written.
- It is not strange text: tatoeba and multi30k show it on their own.

The lowest layer that looks at one place looks at the word to be written. What comes nearest to the other kind is a head
in layer 0 of multi30k. What these models have in common, and the published ones have not, is small data, short
sentences and few updates; which of them decides is not known here.
"""


if __name__ == "__main__":
    main()
