"""Training pairs that made a word of a translation likelier, and those that spoke against it, found in two ways."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.decode.alignment import align_sentences, strip_eos
from pellucid.influence.gradients import PieceChoice, choice_state, select_pairs, sum_influences
from pellucid.influence.state_store import StateStore, open_state_store
from pellucid.store.directory import Bundle, load_bundle
from pellucid.text.word_pieces import is_punctuation, words_without_punctuation
from pellucid.trace.session import Trace
from pellucid.train.checkpoint import checkpoint_step, list_checkpoints
from pellucid.train.config import read_run

CANDIDATES = 200
"""States of each kind, of the same piece and of others, whose pairs are judged by their gradients, too."""

TOP = 20
"""Pairs of each way that are compared to say how far the two ways agree."""


@dataclass(frozen=True)
class InfluentialPair:
    """A training pair with its influence on a choice, and the word it wrote where it was most like it.

    `state` is the cosine of its nearest state with that of the choice, below 0 if it wrote another piece there;
    `gradient` is its influence by gradients, which has no unit.
    """

    line: int
    file: str
    source: str
    target: str
    state: float
    gradient: float
    word: int
    """Index, from 0, of the word of the target that was written from the nearest state; -1 for its end."""
    source_words: tuple[int, ...]
    """Indices of the words of the source that this word is aligned with."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of the two ways on the candidates: Spearman's rank correlation, and pairs that both have on top."""

    rank_correlation: float
    both_on_top: int
    of: int


@dataclass(frozen=True)
class WordInfluence:
    """The pairs that made a word of a translation likelier, the strongest first, and those that spoke against it.

    `piece` is the piece at which the word was decided, the least likely one of it, and `probability` that of the piece.
    """

    word: str
    translation: str
    piece: str
    probability: float
    because: tuple[InfluentialPair, ...]
    against: tuple[InfluentialPair, ...]
    agreement: Agreement
    candidates: int
    steps: tuple[int, ...]
    """Steps of the checkpoints that the gradients were summed over; empty where there was only the model itself."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as an object for JSON."""
        return asdict(self)


def find_word_influence(trace: Trace, bundle: Bundle, word: str, count: int) -> WordInfluence:
    """Find the training pairs, up to `count` for and against, that taught a model a word of a traced translation.

    Raises ValueError for a word that is not in the translation, and where the model has no store of states.
    """
    store, run = open_state_store(bundle.directory, bundle.manifest), bundle.directory.resolve().parent
    choice = find_choice(trace, word)
    nearest = nearest_by_pair(store, choice_state(bundle.model, choice).numpy(), choice.token)
    numbers = list(nearest)
    checkpoints = [path for path in list_checkpoints(run) if checkpoint_step(path)]
    models = (load_bundle(path).model for path in checkpoints) if checkpoints else [bundle.model]
    smoothing = read_run(run / "run.toml", began=run).optim.label_smoothing
    pairs = select_pairs(store.pairs, numbers)
    gradients = sum_influences(models, pairs, choice, smoothing).numpy()
    states = np.array([cosine for _, cosine in nearest.values()])
    ranks = rank(states) + rank(gradients)
    # A pair speaks for the word where at least one of the ways says so, and the other may doubt it.
    order = np.argsort(-ranks, kind="stable")
    because = [i for i in order if states[i] > 0 or gradients[i] > 0][:count]
    against = [i for i in order[::-1] if states[i] < 0 or gradients[i] < 0][:count]
    shown = describe_pairs(bundle, store, [(numbers[i], nearest[numbers[i]][0]) for i in (*because, *against)])
    described = [
        InfluentialPair(**about, state=float(states[i]), gradient=float(gradients[i]))
        for i, about in zip((*because, *against), shown, strict=True)
    ]
    step = trace.steps[choice.index]
    return WordInfluence(
        word,
        trace.target.text,
        step.chosen.piece,
        step.chosen.prob,
        tuple(described[: len(because)]),
        tuple(described[len(because) :]),
        measure_agreement(states, gradients),
        len(numbers),
        tuple(map(checkpoint_step, checkpoints)),
    )


def find_choice(trace: Trace, word: str) -> PieceChoice:
    """Find the first word of the translation that is `word`, punctuation aside, and its least likely piece."""
    ids = strip_eos(list(trace.target.ids))
    text = trace.target.text
    words = words_without_punctuation(trace.target.pieces[: len(ids)], text)
    for spelled, aligned in zip(text.split(), words, strict=True):
        if word in (spelled, strip_punctuation(spelled)):
            index = min(aligned.pieces, key=lambda i: trace.steps[i].chosen.prob)
            return PieceChoice(list(trace.source.ids), list(trace.target.ids), index)
    raise ValueError(f"{word!r:.60} is no word of the translation {text!r}; choose one of its words")


def strip_punctuation(word: str) -> str:
    """Return a word without the punctuation around it.

    >>> strip_punctuation("«don't»,")
    "don't"
    """
    letters = [i for i, letter in enumerate(word) if not is_punctuation(letter)]
    return word[letters[0] : letters[-1] + 1] if letters else word


def nearest_by_pair(store: StateStore, state: NDArray[np.float32], token: int) -> dict[int, tuple[int, float]]:
    """Return the candidates: for each pair the position in the store of its nearest state, and the signed cosine.

    The sign is that of what was written there: above 0 for the `token`, below 0 for another.
    """
    found: dict[int, tuple[int, float]] = {}
    for near, sign in zip(store.find_nearest(state, token, CANDIDATES), (1.0, -1.0), strict=True):
        for pair, position, cosine in zip(
            store.pair_of(near.positions).tolist(), near.positions.tolist(), near.cosines.tolist(), strict=True
        ):
            if pair not in found or cosine > abs(found[pair][1]):
                found[pair] = position, sign * cosine
    return found


def rank(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the rank of each value, the smallest 0; equal values share the mean of their ranks.

    >>> rank(np.array([0.3, 0.1, 0.3])).tolist()
    [1.5, 0.0, 1.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[inverse]


def measure_agreement(states: NDArray[np.floating[Any]], gradients: NDArray[np.floating[Any]]) -> Agreement:
    """Measure how far the two ways agree on the same pairs."""
    top = min(TOP, len(states))
    tops = (set(np.argsort(-values, kind="stable")[:top].tolist()) for values in (states, gradients))
    a, b = rank(states), rank(gradients)
    varies = a.std() > 0 and b.std() > 0
    return Agreement(float(np.corrcoef(a, b)[0, 1]) if varies else 0.0, len(set.intersection(*tops)), top)


def describe_pairs(bundle: Bundle, store: StateStore, positions: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return text, place and alignment of pairs, each given as its number and the position of a state of it."""
    tokenizer = bundle.tokenizer
    sources = [store.pairs.sources[pair].tolist() for pair, _ in positions]
    targets = [store.pairs.targets[pair].tolist() for pair, _ in positions]
    texts = [tokenizer.decode_source(ids) for ids in sources], [tokenizer.decode_target(ids) for ids in targets]
    links = align_sentences(bundle.model, tokenizer, sources, targets, *texts)
    described = []
    for n, (pair, position) in enumerate(positions):
        words = words_without_punctuation(tokenizer.target_pieces(strip_eos(targets[n])), texts[1][n])
        index = position - int(store.pairs.targets.starts[pair])
        word = next((i for i, aligned in enumerate(words) if index in aligned.pieces), -1)
        files, line = store.place_of(pair)
        described.append({
            "line": line, "file": files[0], "source": texts[0][n], "target": texts[1][n], "word": word,
            "source_words": tuple(i for i, j in links[n] if j == word),
        })  # fmt: skip
    return described
