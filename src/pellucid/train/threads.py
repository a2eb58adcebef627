"""Threads that share an update on a CPU, each with its own rows of the batch and its own gradient.

The matrices of a small model are too small for many threads to share one product, and the operations between the
products are shared even less; rows are shared completely (benchmarks/results/train-threads.md). The sums are those of
one thread (`distributed` has the same for processes), so the number of threads changes the time and nothing else.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TypeVar

import torch

from pellucid.data.batching import Batch, slice_batch
from pellucid.model import Transformer
from pellucid.train.fsdp import is_sharded

POSITIONS_PER_THREAD = 800
"""Target positions for which another thread pays off, as every batch has a cost that does not depend on its length.

Two threads gain from batches of 2,048, which are rarely as full as that, and not yet from those of 1,024.
"""

GRADIENT_BYTES = 2**30
"""Bytes that the gradients of all threads may take together."""

Work = TypeVar("Work")
Result = TypeVar("Result")


def count_threads(model: Transformer, batches: Sequence[Batch]) -> int:
    """Return how many threads are to share these batches."""
    weight = model.output_embedding.weight
    # A GPU is busy as it is; sharded and compiled models do not run on several threads.
    if weight.device.type != "cpu" or is_sharded(model) or is_compiled(model):
        return 1
    worth = max(batch.target_in.numel() for batch in batches) // POSITIONS_PER_THREAD
    room = GRADIENT_BYTES // sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    # The processor's other threads work inside of each of these: see `_pool`.
    return max(1, min(torch.get_num_threads(), worth, room, *(len(batch.source) for batch in batches)))


def is_compiled(model: Transformer) -> bool:
    """Whether `update.compile_layers` replaced the model's layers by compiled ones."""
    # Set on the instance, where it hides the method of the class.
    return "states" in vars(model)


def thread_rows(batch: Batch, thread: int, threads: int) -> Batch:
    """Return every n-th row of a batch, from row `thread` on, with a dropout seed of its own."""
    # A batch is sorted by length: with a stride, each thread gets long and short rows.
    return replace(slice_batch(batch, slice(thread, None, threads)), seed=batch.seed + thread)


def map_threads(work: Callable[[Work], Result], shares: Sequence[Work]) -> list[Result]:
    """Run `work` on each share in a thread of its own; return the results in the order of the shares."""
    return list(_pool(len(shares), max(1, torch.get_num_threads() // len(shares))).map(work, shares))


@cache
def _pool(threads: int, inside: int) -> ThreadPoolExecutor:
    # Cached: the libraries below torch set up a good deal for every new thread. With more threads here, each gets fewer
    # for its own products.
    return ThreadPoolExecutor(threads, "update", initializer=torch.set_num_threads, initargs=(inside,))
