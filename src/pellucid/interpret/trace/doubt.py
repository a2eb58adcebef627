"""Doubt: the word of a translation that the model was least sure of, and what it would have written instead."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch

from pellucid.data.tokenizer import BOS, EOS, FORBIDDEN
from pellucid.decode.torch_engine import pad_sentences
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.trace import TraceData

# Probability of its least likely piece from which a word is not doubted. Of the demo's translations
# all wrong ones have a piece below it, and one right one in seven: benchmarks/results/doubt.md
SURE = 0.7
# Most pieces of a word. Where no spaces are written a "word" is a
# clause, so its piece is named instead.
MOST_PIECES = 12


@dataclass(frozen=True)
class Doubt:
    """The word that the model was least sure of: `step` wrote its least likely piece, whose probability was `prob`.

    `instead` is the word that the likeliest other piece of that step begins or goes on with, and
    `instead_prob` the probability of that piece. It is empty if the translation would have ended.
    """

    word: int
    text: str
    step: int
    prob: float
    instead: str
    instead_prob: float


def find_least_sure(words: Sequence[int | None], probs: Sequence[float]) -> int | None:
    """Return the place of the least likely piece that belongs to a word; None where all are likely enough.

    >>> find_least_sure([0, 0, 1, None], [0.9, 0.4, 0.6, 0.1]), find_least_sure([0, None], [0.8, 0.1])
    (1, None)
    """
    doubtful: list[int] = []
    for place, word in enumerate(words):
        if word is not None and probs[place] < SURE:
            doubtful.append(place)
    return min(doubtful, key=lambda place: probs[place], default=None)


def find_doubt(trace: TraceData) -> Doubt | None:
    """Find the word of a trace that the model was least sure of; None where it was sure of all.

    None as well for a run that was changed, or that began with given pieces: they say nothing of
    what the model would write by itself.
    """
    if trace.edits or trace.facts.run.search["prefix"]:
        return None
    place = find_least_sure(trace.target.words, [step.chosen.prob for step in trace.steps])
    if place is None:
        return None

    step, word = trace.steps[place], trace.target.words[place]
    assert word is not None
    other = next(one for one in step.top if one.id != step.chosen.id and one.id not in FORBIDDEN)
    text, instead = step.chosen.piece, other.piece
    if trace.target.words.count(word) <= MOST_PIECES:
        text = trace.target.text.split()[word]
        instead = write_word(trace, place, other.id, word)
    return Doubt(word, text, place, step.chosen.prob, instead, other.prob)


def write_word(trace: TraceData, step: int, piece: int, word: int) -> str:
    """Return the word of this number that the model writes if its piece of this step is another.

    The likeliest pieces follow, up to the end of the word. A piece that goes on with the word
    before gives that word, and one that begins a new word inside of this one gives both.
    """
    model, decode = trace.model, trace.tokenizer.decode_target
    written = [*trace.target.ids[:step], piece]
    if piece == EOS:
        return ""
    begun = len(decode(written).split())
    device = model.output_embedding.weight.device
    longest = min(step + MOST_PIECES, model.config.max_positions - 1)
    with inference_only(model):
        memory = model.encode(pad_sentences([trace.source.ids], device))
        while len(written) < longest:
            states = model.decode(pad_sentences([[BOS, *written]], device), memory)
            logits = model.logits(states[:, -1:])[0, 0]
            logits[list(FORBIDDEN)] = -torch.inf
            likeliest = int(logits.argmax())
            if likeliest == EOS or len(decode([*written, likeliest]).split()) > begun:
                break
            written.append(likeliest)

    words = decode(written).split()
    return " ".join(words[max(0, min(word, begun - 1)) :])


def find_wrong_words(translation: str, reference: str) -> set[int]:
    """Return the numbers of the words that stand where the reference has another, or before which it has more.

    >>> find_wrong_words("Pedro ve un reloj.", "Pedro pierde un reloj.")
    {1}
    >>> find_wrong_words("El pato estaba feliz.", "El pato negro estaba feliz.")
    {2}
    """
    words, wrong = translation.split(), set()
    blocks = SequenceMatcher(None, words, reference.split(), autojunk=False).get_opcodes()
    for kind, start, stop, first, last in blocks:
        if kind != "equal":
            # Where words are missing, it is the next word that stands in their place.
            is_short = last - first > stop - start
            wrong.update(range(start, min(stop + is_short, len(words))))
    return wrong
