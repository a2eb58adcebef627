"""What carries out a search: a request, the engines that take it, and the one that runs the model in torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from pellucid.decode.beam import beam_search
from pellucid.decode.config import SearchConfig
from pellucid.decode.greedy import greedy_search
from pellucid.decode.sample import sample_search
from pellucid.decode.search import Hypothesis, Rule, State, Step, never
from pellucid.decode.step import ModelState, padded, step_of
from pellucid.decode.stepper import Stepper
from pellucid.model import Memory, Transformer


@dataclass(frozen=True)
class Request:
    """One sentence to be translated, as pieces.

    `source` ends with the end mark. `number` is that of its line, 1 first: the draws of sampling depend on it. The
    translation begins with `prefix`, has one spelling of each of `terms`, and no `no_repeat` pieces in a row twice.
    """

    source: list[int]
    number: int
    prefix: tuple[int, ...] = ()
    terms: tuple[tuple[tuple[int, ...], ...], ...] = ()
    no_repeat: int = 0

    @property
    def plain(self) -> bool:
        """Whether nothing but the source decides the translation."""
        return not (self.prefix or self.terms or self.no_repeat)


class Engine(Protocol):
    """Searches for translations of one batch."""

    def search(self, requests: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first: at least one, at most `config.n_best`."""
        ...


class TorchEngine:
    """The model itself, and the searches of this folder."""

    def __init__(self, model: Transformer, forbidden: tuple[int, ...]):
        self.model = model
        self.forbidden = forbidden
        self.stepper: Stepper | None = None

    def begin(self, memory: Memory) -> tuple[Step, State]:
        """The fast step where it serves this model, the model's own otherwise."""
        if not Stepper.serves(self.model):
            return step_of(self.model), ModelState(memory)
        if self.stepper is None or self.stepper.stale:
            self.stepper = Stepper(self.model)
        return self.stepper, self.stepper.begin(memory)

    def search(self, requests: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        sources = [request.source for request in requests]
        step, state = self.begin(self.model.encode(padded(sources, device)))
        most = [min(len(ids) - 1 + config.max_extra, self.model.config.max_positions) for ids in sources]
        limits = torch.tensor(most, device=device)
        rules: list[Rule] = [never(self.forbidden)]
        if config.method == "sample":
            seeds = [[[config.seed, each.number, copy] for copy in range(config.n_best)] for each in requests]
            draws = [[np.random.default_rng(seed).random(max(most)) for seed in some] for some in seeds]
            return sample_search(
                step,
                state,
                limits,
                torch.tensor(np.array(draws), dtype=torch.float32, device=device),
                temperature=config.temperature,
                top_k=config.top_k,
                top_p=config.top_p,
                length_penalty=config.length_penalty,
                rules=rules,
            )
        if config.method == "greedy" or config.beam == 1:
            return greedy_search(step, state, limits, length_penalty=config.length_penalty, rules=rules)
        return beam_search(
            step,
            state,
            limits,
            width=config.beam,
            n_best=config.n_best,
            length_penalty=config.length_penalty,
            rules=rules,
        )
