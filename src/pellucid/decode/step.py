"""A model as a search sees it: a step, the state between two steps, and a given target in one."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, PAD
from pellucid.decode.search import Step, log_probabilities
from pellucid.model import Memory, Transformer
from pellucid.model.cache import Cache


class ModelState:
    """A model as a search sees it between steps: memory held once a sentence, cache held for every row."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.cache = Cache()

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        if len(sentences) == len(self.memory.mask):
            self.cache.select(rows)
        else:
            self.memory = self.memory.select(sentences)
            self.cache.select(rows, sentences)


def model_step(model: Transformer) -> Step:
    """One more piece for each row, with what the earlier ones left in the `ModelState`."""

    def step(ids: Int[Tensor, " R"], state: ModelState) -> Float[Tensor, "R V"]:
        return model.logits(model.decode(ids[:, None], state.memory, cache=state.cache))[:, 0]

    return step


def score_targets(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """The log-probability of each piece of each target, its end mark among them, given the source and those before."""
    device = next(model.parameters()).device
    asked = pad_sentences(targets, device)
    logits = model(pad_sentences(sources, device), pad_sentences([[BOS, *ids[:-1]] for ids in targets], device))
    found = log_probabilities(logits.flatten(0, 1)).gather(1, asked.flatten()[:, None]).view_as(asked)
    return [row[: len(ids)] for row, ids in zip(found.tolist(), targets, strict=True)]


def pad_sentences(sentences: list[list[int]], device: torch.device) -> Int[Tensor, "B S"]:
    """One sentence a row, filled up to the longest."""
    longest = max(map(len, sentences))
    return torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences], device=device)
