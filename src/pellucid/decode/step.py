"""Adapts a model to the `Step` that the searches call, and scores given translations (forced decoding)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, PAD
from pellucid.decode.search import Step, log_probabilities
from pellucid.model import Memory, Transformer
from pellucid.model.cache import Cache


class ModelState:
    """State of a model between two steps: the memory, one row a sentence, and the cache, one row a hypothesis."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.cache = Cache()

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep the given old rows of the cache and the given old sentences of the memory, in this order."""
        # Copying the memory costs time, and an equal count means equal sentences (`SearchState.select`).
        if len(sentences) != len(self.memory.states):
            self.memory = self.memory.select(sentences)
        self.cache.select(rows, sentences)


def model_step(model: Transformer) -> Step:
    """Make the step of one model: it decodes one more position of each row from the cache in a `ModelState`."""

    def step(ids: Int[Tensor, " R"], state: ModelState) -> Float[Tensor, "R V"]:
        return model.logits(model.decode(ids[:, None], state.memory, cache=state.cache))[:, 0]

    return step


def score_targets(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """Return the log-probability of each token of each target, given its source and the tokens before it.

    A target that ends with EOS has a number for EOS too.
    """
    device = next(model.parameters()).device
    labels = pad_sentences(targets, device)
    # Teacher forcing: the decoder reads the target shifted right, from BOS to the last token but one.
    logits = model(pad_sentences(sources, device), pad_sentences([[BOS, *ids[:-1]] for ids in targets], device))
    log_probs = log_probabilities(logits.flatten(0, 1)).gather(1, labels.flatten()[:, None]).view_as(labels)
    return [row[: len(ids)] for row, ids in zip(log_probs.tolist(), targets, strict=True)]


def pad_sentences(sentences: list[list[int]], device: torch.device) -> Int[Tensor, "B S"]:
    """Return the sentences as one tensor, a row each, padded with PAD to the longest."""
    longest = max(map(len, sentences))
    return torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences], device=device)
