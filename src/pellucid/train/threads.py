"""Threads that share an update on a CPU, each with rows of its own and a gradient of its own.

The matrices of a small model are too small for many threads to share one product, and what lies between two products is
shared even less; whole rows are shared without a rest (benchmarks/results/train-threads.md). The sums are those of one
thread (`distributed` has the same for processes), so their number changes the time and nothing else.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TypeVar

import torch

from pellucid.data.batching import Batch
from pellucid.model import Transformer
from pellucid.train.failures import slice_batch
from pellucid.train.fsdp import is_sharded

POSITIONS_PER_THREAD = 800
"""Target positions that are worth a thread: a batch costs something for being a batch, however short.

Two threads gain from batches of 2,048, which are rarely as full as that, and not yet from those of 1,024.
"""

GRADIENT_BYTES = 2**30
"""Bytes that the gradients of all threads may take together."""

Work = TypeVar("Work")
Result = TypeVar("Result")


def count_threads(model: Transformer, parts: Sequence[Batch]) -> int:
    """How many threads share these batches; what remains of the processor's threads works inside each of them."""
    weight = model.output_embedding.weight
    if weight.device.type != "cpu" or is_sharded(model) or is_compiled(model):
        return 1
    worth = max(part.target_in.numel() for part in parts) // POSITIONS_PER_THREAD
    room = GRADIENT_BYTES // sum(each.numel() * each.element_size() for each in model.parameters())
    return max(1, min(torch.get_num_threads(), worth, room, *(len(part.source) for part in parts)))


def is_compiled(model: Transformer) -> bool:
    """Whether `update.compiled` made other layers of it: those are traced by one thread."""
    return "states" in vars(model)


def thread_rows(part: Batch, number: int, threads: int) -> Batch:
    """Every so-manieth row of a batch, so that each thread has long and short ones; with other dropout for each."""
    return replace(slice_batch(part, slice(number, None, threads)), seed=part.seed + number)


def map_threads(work: Callable[[Work], Result], shares: Sequence[Work]) -> list[Result]:
    """What each thread makes of its share, in the order of the shares."""
    return list(_pool(len(shares), max(1, torch.get_num_threads() // len(shares))).map(work, shares))


@cache
def _pool(threads: int, inside: int) -> ThreadPoolExecutor:
    # Kept, for the libraries below torch set up a good deal for every thread that comes to them.
    return ThreadPoolExecutor(threads, "update", initializer=torch.set_num_threads, initargs=(inside,))
