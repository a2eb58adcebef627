"""Models trained in turns, a few seconds each, for equal processor time on one core; and what they then write.

Time is the processor's (`time.process_time`), one thread: a core that others use at the same time gives less of it, not
another amount of work in it. The turns are short, so that whatever still disturbs falls on all alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from benchmarks.recurrent_model import Recurrent, step
from pellucid.data.batching import EncodedPairs, collate, epoch_batches
from pellucid.data.stream import Stream
from pellucid.decode.greedy import greedy_search
from pellucid.decode.step import ModelState, model_step, pad_sentences
from pellucid.decode.translate import inference_only
from pellucid.model import Transformer
from pellucid.model.dropout import scale_dropout
from pellucid.train.config import OptimConfig
from pellucid.train.update import batch_loss, dropout_factor, learning_rate, make_adam, update_weights

TURN = 4.0
"""Seconds of a turn."""


@dataclass
class Runner:
    """A model in training: Pellucid's own update, loss, schedule and batches, whichever model it is."""

    name: str
    model: Any
    optim: OptimConfig
    stream: Stream
    seconds: float = 0.0
    updates: int = 0
    pieces: int = 0
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = make_adam(self.model, self.optim)
        self.model.train()

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def speed(self) -> float:
        """Target pieces, padding not counted, a second of processor time."""
        return self.pieces / self.seconds

    def run(self, until: float, total: float) -> None:
        """Go on until so many seconds of `total` are used up."""
        while self.seconds < until:
            began = time.process_time()
            rate = learning_rate(self.updates, self.seconds / total, self.optim)
            scale_dropout(self.model, dropout_factor(self.stream.epochs, self.optim))
            result = update_weights(self.model, self.optimizer, [next(self.stream)], rate, self.optim, "float32")
            self.seconds += time.process_time() - began
            self.updates += 1
            self.pieces += result.target_tokens


@dataclass(frozen=True)
class Contender:
    """A model to be made, its name, and the learning rates it may try."""

    name: str
    make: Callable[[], nn.Module]
    peaks: tuple[float, ...]


def race(runners: Sequence[Runner], total: float, report: Callable[[Runner], object] = lambda _: None) -> None:
    """Train all of them for so many seconds each, in turns."""
    turns = max(1, round(total / TURN))
    for turn in range(1, turns + 1):
        for runner in runners:
            runner.run(total * turn / turns, total)
            report(runner)
    for runner in runners:
        runner.model.eval()


def runner(contender: Contender, peak: float, optim: OptimConfig, encoded: EncodedPairs, batch_tokens: int) -> Runner:
    """A fresh model at the beginning of the data; the same seed for all."""
    torch.manual_seed(1)
    return Runner(contender.name, contender.make(), replace(optim, peak=peak), Stream(encoded, batch_tokens, seed=1))


@dataclass(frozen=True)
class Trial:
    """A model trained with one learning rate, and its dev loss."""

    runner: Runner
    dev_loss: float


def try_rates(
    contenders: Sequence[Contender],
    optim: OptimConfig,
    encoded: EncodedPairs,
    dev: EncodedPairs,
    batch_tokens: int,
    total: float,
    report: Callable[[Runner], object] = lambda _: None,
) -> dict[str, list[Trial]]:
    """Train each contender with each of its learning rates, all in turns; the lowest dev loss comes first."""
    runners = [
        runner(contender, peak, optim, encoded, batch_tokens) for contender in contenders for peak in contender.peaks
    ]
    race(runners, total, report)
    tries_by_name: dict[str, list[Trial]] = {contender.name: [] for contender in contenders}
    for trained in runners:
        tries_by_name[trained.name].append(Trial(trained, dev_loss(trained.model, dev)))
    return {name: sorted(tries, key=lambda trial: trial.dev_loss) for name, tries in tries_by_name.items()}


def dev_loss(model: Any, dev: EncodedPairs, batch_tokens: int = 4096) -> float:
    """Nats a piece, without smoothing."""
    order = epoch_batches(dev.sources.lengths, dev.targets.lengths, batch_tokens, seed=0, epoch=0)
    batches = [collate(dev, indices) for indices in order]
    with inference_only(model):
        total = sum(batch_loss(model, batch, smoothing=0.0).item() for batch in batches)
    return total / sum(batch.target_tokens for batch in batches)


def greedy(model: Any, sources: Sequence[Sequence[int]], limits: Sequence[int], at_once: int = 64) -> list[list[int]]:
    """Return what the model writes by greedy search, without the end mark, at most so many pieces each."""
    outputs: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda n: len(sources[n]))
    with inference_only(model):
        for first in range(0, len(order), at_once):
            indices = order[first : first + at_once]
            memory = model.encode(pad_sentences([list(sources[n]) for n in indices], torch.device("cpu")))
            searched = greedy_search(
                *begin_search(model, memory), torch.tensor([limits[n] for n in indices]), length_penalty=0.0
            )
            for n, [best] in zip(indices, searched, strict=True):
                outputs[n] = best.tokens
    return outputs


def begin_search(model: Any, memory: Any) -> tuple[Any, Any]:
    """The step of a search, and its state before the first."""
    if isinstance(model, Transformer):
        return model_step(model), ModelState(memory)
    assert isinstance(model, Recurrent)
    return step(model), model.at_start(memory)
