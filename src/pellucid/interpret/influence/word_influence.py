"""Training pairs that made a word of a translation likelier, and those that spoke against it, found in two ways.

One way compares decoder states. The other is by gradients of the output layer, without a backward
pass: that layer computes z = W h + b, and the gradient of a loss by W is the sum over tokens of d
h^T, with d = softmax(z) - q, where q is the distribution that the loss asks for. So the product of
two such gradients needs no gradient:

    <gradient of pair, gradient of choice> = sum over tokens t of the pair of (h_t . h) (d_t . d)

A step of gradient descent on the pair raises the choice's log-probability by the learning rate
times this. Summed over checkpoints it is TracIn (Pruthi et al. 2020, 3.2), here of the last layer
(their 4.2) and without the learning rates, which say little of the steps that Adam or Muon take.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.batching import EncodedPairs, pack_sentences
from pellucid.data.text.word_pieces import strip_word, words_without_punctuation
from pellucid.data.tokenizer import BOS, strip_eos
from pellucid.decode.alignment import align_sentences
from pellucid.interpret.studies.importance import mean_ranks, spearman_correlation
from pellucid.interpret.trace.session import Trace
from pellucid.model import Transformer
from pellucid.store.directory import Bundle, load_bundle
from pellucid.training.checkpoint import checkpoint_step, list_checkpoints
from pellucid.training.config import read_run
from pellucid.training.state_store import StateStore, teacher_forced_states

CANDIDATES = 200  # states of each kind, of the same piece and of others, whose pairs are judged by their gradients, too
_ROWS_AT_ONCE = 512  # tokens whose probabilities are computed at a time: rows of as many numbers as there are pieces
TOP = 20  # pairs of each way that are compared to say how far the two ways agree


@dataclass(frozen=True)
class PieceChoice:
    """A choice of one piece: the source, the target it is part of, with EOS, and its index there."""

    source: list[int]
    target: list[int]
    index: int

    @property
    def token(self) -> int:
        return self.target[self.index]


@dataclass(frozen=True)
class InfluentialPair:
    """A training pair with its influence on a choice, and the word it wrote where it was most like it.

    `state` is the cosine of its nearest state with the choice's state, below 0 if it wrote another
    piece there; `gradient` is its influence by gradients, which has no unit.
    """

    line: int
    file: str
    source: str
    target: str
    state: float
    gradient: float
    word: int  # index, from 0, of the word of the target that was written from the nearest state; -1 for its end
    source_words: tuple[int, ...]  # indices of the words of the source that this word is aligned with


@dataclass(frozen=True)
class _Agreement:
    """Agreement of the two ways on the candidates: Spearman's rank correlation, and pairs that both have on top."""

    rank_correlation: float
    both_on_top: int
    of: int


@dataclass(frozen=True)
class WordInfluence:
    """The pairs that made a word of a translation likelier, the strongest first, and those that spoke against it.

    `piece` is the piece at which the word was decided, the least likely one of it, and
    `probability` the piece's.
    """

    word: str
    source: str
    translation: str
    piece: str
    probability: float
    because: tuple[InfluentialPair, ...]
    against: tuple[InfluentialPair, ...]
    agreement: _Agreement
    candidates: int
    # Steps of the checkpoints that the gradients were summed
    # over; empty where there was only the model itself.
    steps: tuple[int, ...]


@dataclass(frozen=True)
class _WeighedPairs:
    """Candidates for a choice: pairs with the positions of their nearest states in the store, weighed in both ways."""

    store: StateStore
    choice: PieceChoice
    numbers: list[int]
    positions: list[int]
    states: NDArray[np.float64]
    gradients: NDArray[np.float64]
    steps: tuple[int, ...]

    def order(self, sign: int) -> list[int]:
        """Return the indices of the pairs that speak for the choice (sign 1) or against it (-1), strongest first."""
        ranks = mean_ranks(self.states) + mean_ranks(self.gradients)
        # One of the ways is enough, and the other may doubt it.
        speaks_so = (sign * self.states > 0) | (sign * self.gradients > 0)
        strongest_first = np.argsort(-sign * ranks, kind="stable").tolist()
        return [i for i in strongest_first if speaks_so[i]]


def find_word_influence(trace: Trace, store: StateStore, word: str, count: int) -> WordInfluence:
    """Find the training pairs, up to `count` for and against, that taught a model a word of a traced translation.

    `store` belongs to the traced model. Raises ValueError for a word that is not in the
    translation.
    """
    bundle = trace.origin.bundle
    weighed = weigh_pairs(bundle, store, find_choice(trace, word))
    because, against = weighed.order(1)[:count], weighed.order(-1)[:count]
    described = _describe_pairs(bundle, weighed, [*because, *against])
    step = trace.steps[weighed.choice.index]
    return WordInfluence(
        word,
        trace.sentence,
        trace.target.text,
        step.chosen.piece,
        step.chosen.prob,
        tuple(described[: len(because)]),
        tuple(described[len(because) :]),
        measure_agreement(weighed.states, weighed.gradients),
        len(weighed.numbers),
        weighed.steps,
    )


def weigh_pairs(bundle: Bundle, store: StateStore, choice: PieceChoice) -> _WeighedPairs:
    """Weigh the training pairs whose states are most like the state of a choice, by these states and by gradients."""
    run = bundle.directory.resolve().parent
    # For each pair the position of its nearest state in
    # the store, and the cosine: below 0 for another token.
    nearest: dict[int, tuple[int, float]] = {}
    found = store.find_nearest(choice_state(bundle.model, choice).numpy(), choice.token, CANDIDATES)

    for near, sign in zip(found, (1.0, -1.0), strict=True):
        pairs = store.pair_of(near.positions).tolist()
        for pair, position, cosine in zip(pairs, near.positions.tolist(), near.cosines.tolist(), strict=True):
            if pair not in nearest or cosine > abs(nearest[pair][1]):
                nearest[pair] = position, sign * cosine

    checkpoints = [path for path in list_checkpoints(run) if checkpoint_step(path)]
    models = (load_bundle(path).model for path in checkpoints) if checkpoints else [bundle.model]
    smoothing = read_run(run / "run.toml", began=run).optim.label_smoothing
    gradients = sum_influences(models, select_pairs(store.pairs, list(nearest)), choice, smoothing)
    return _WeighedPairs(
        store,
        choice,
        list(nearest),
        [position for position, _ in nearest.values()],
        np.array([cosine for _, cosine in nearest.values()]),
        gradients.double().numpy(),
        tuple(map(checkpoint_step, checkpoints)),
    )


def find_choice(trace: Trace, word: str) -> PieceChoice:
    """Find the first word of the translation that is `word`, punctuation aside, and its least likely piece."""
    ids = strip_eos(list(trace.target.ids))
    text = trace.target.text
    words = words_without_punctuation(trace.target.pieces[: len(ids)], text)
    for spelled, aligned in zip(text.split(), words, strict=True):
        if word in (spelled, strip_word(spelled)):
            index = min(aligned.pieces, key=lambda i: trace.steps[i].chosen.prob)
            return PieceChoice(list(trace.source.ids), list(trace.target.ids), index)
    raise ValueError(f"{word!r:.60} is no word of the translation {text!r}; choose one of its words")


def measure_agreement(
    states: NDArray[np.floating[Any]],
    gradients: NDArray[np.floating[Any]],
) -> _Agreement:
    """Measure how far the two ways agree on the same pairs."""
    top = min(TOP, len(states))
    tops = (set(np.argsort(-values, kind="stable")[:top].tolist()) for values in (states, gradients))
    correlation = spearman_correlation(states, gradients)
    return _Agreement(0.0 if isnan(correlation) else correlation, len(set.intersection(*tops)), top)


def _describe_pairs(
    bundle: Bundle,
    weighed: _WeighedPairs,
    indices: Sequence[int],
) -> list[InfluentialPair]:
    """Return some of the pairs with their text, place and alignment."""
    tokenizer, store = bundle.tokenizer, weighed.store
    numbers = [weighed.numbers[i] for i in indices]
    sources = [store.pairs.sources[number].tolist() for number in numbers]
    targets = [store.pairs.targets[number].tolist() for number in numbers]
    source_texts = [tokenizer.decode_source(source) for source in sources]
    target_texts = [tokenizer.decode_target(target) for target in targets]
    links = align_sentences(bundle.model, tokenizer, sources, targets, source_texts, target_texts)

    described = []
    for place, i in enumerate(indices):
        number, target_pieces = numbers[place], tokenizer.target_pieces(strip_eos(targets[place]))
        words = words_without_punctuation(target_pieces, target_texts[place])
        index = weighed.positions[i] - int(store.pairs.targets.starts[number])
        word = next((w for w, aligned in enumerate(words) if index in aligned.pieces), -1)
        source_words = [source_word for source_word, w in links[place] if w == word]
        files, line = store.place_of(number)
        described.append(
            InfluentialPair(
                line,
                files[0],
                source_texts[place],
                target_texts[place],
                float(weighed.states[i]),
                float(weighed.gradients[i]),
                word,
                tuple(source_words),
            )
        )

    return described


def sum_influences(
    models: Iterable[Transformer], pairs: EncodedPairs, choice: PieceChoice, smoothing: float
) -> Float[Tensor, " N"]:
    """Return the influence of each of N pairs on a choice, summed over the models of several checkpoints.

    `smoothing` is the label smoothing of the training. Above 0: training on the pair made the
    choice likelier.
    """
    return sum(
        (pair_influences(model, pairs, choice, smoothing) for model in models),
        torch.zeros(len(pairs)),
    )


@torch.no_grad()
def pair_influences(
    model: Transformer, pairs: EncodedPairs, choice: PieceChoice, smoothing: float
) -> Float[Tensor, " N"]:
    """Return each pair's loss gradient times the gradient of the choice's loss, -log p(piece), by one model."""
    h = choice_state(model, choice)
    d = model.logits(h[None, None])[0, 0].softmax(dim=0)
    d[choice.token] -= 1

    # The gradient by a bias is d alone, as if every state had one more number, 1.
    bias = 0.0 if model.output_bias is None else 1.0
    states = teacher_forced_states(model, pairs)
    tokens = torch.from_numpy(pairs.targets.ids.astype("int64"))
    influences = torch.empty(len(tokens))

    for first in range(0, len(tokens), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        p = model.logits(states[None, rows])[0].softmax(dim=1)
        # d_t . d with q_t = (1 - smoothing) on the token
        # + smoothing spread evenly, without forming q_t
        products = p @ d - (1 - smoothing) * d[tokens[rows]] - smoothing * d.mean()
        influences[rows] = (states[rows] @ h + bias) * products

    lengths = torch.from_numpy(pairs.targets.lengths.astype("int64"))
    pair_of_token = torch.repeat_interleave(torch.arange(len(pairs)), lengths)
    return torch.zeros(len(pairs)).index_add_(0, pair_of_token, influences)


@torch.no_grad()
def choice_state(model: Transformer, choice: PieceChoice) -> Float[Tensor, " D"]:
    """Return the state from which the model makes the choice."""
    before = torch.tensor([[BOS, *choice.target[: choice.index]]])
    return model.states(torch.tensor([choice.source]), before)[0, -1].float()


def select_pairs(pairs: EncodedPairs, numbers: Sequence[int]) -> EncodedPairs:
    """Return some of the pairs, in this order, in memory."""
    sides = []
    for side in (pairs.sources, pairs.targets):
        sentences = [side[number].tolist() for number in numbers]
        sides.append(pack_sentences(sentences, side.ids.dtype.type))
    return EncodedPairs(*sides)
