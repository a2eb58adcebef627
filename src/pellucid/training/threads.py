"""The backward pass of an update on several threads, each with rows of its own from every batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pellucid.cpu import thread_pool
from pellucid.data.batching import Batch, slice_batch
from pellucid.model.dropout import seeded_dropout
from pellucid.training.memory import BatchTooLarge, is_out_of_memory
from pellucid.training.optimizer import limit_step_threads


def backward_on_threads(
    model: nn.Module,
    batches: Sequence[Batch],
    threads: int,
    loss_of_rows: Callable[[Batch], Tensor],
) -> Tensor:
    """Run all batches forward and backward, each thread with its rows of each; return the summed loss.

    The sum of the gradients is in each weight's `.grad` afterwards. Raises BatchTooLarge, with the
    number of the first batch that does not fit in memory.
    """
    parameters = list(model.parameters())

    def backward_share(thread: int) -> tuple[Tensor, list[Tensor]] | int:
        """Return the loss and gradients of a thread's rows, or the number of a batch that does not fit."""
        total, gradients = torch.zeros((), dtype=torch.float64), []
        for index, batch in enumerate(batches):
            rows = thread_rows(batch, thread, threads)
            try:
                with seeded_dropout(rows.seed):
                    loss = loss_of_rows(rows)
                # Not backward(): threads would add into the same `.grad` in an order that changes
                # from run to run.
                new = list(torch.autograd.grad(loss, parameters, materialize_grads=True))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return index
            total += loss.detach()
            gradients = _add_tensors(gradients, new) if gradients else new

        return total, gradients

    sums: list[tuple[Tensor, list[Tensor]]] = []
    too_large: list[int] = []
    pool = thread_pool(threads, max(1, torch.get_num_threads() // threads))
    for result in pool.map(backward_share, range(threads)):
        if isinstance(result, int):
            too_large.append(result)
        else:
            sums.append(result)

    if too_large:
        raise BatchTooLarge(min(too_large))

    # Added in the order of the threads, whoever was first: floating-point sums depend on the order.
    total, gradients = sums[0]
    with limit_step_threads(gradients):
        for thread_total, thread_gradients in sums[1:]:
            total = total + thread_total
            gradients = _add_tensors(gradients, thread_gradients)

    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return total


def thread_rows(batch: Batch, thread: int, threads: int) -> Batch:
    """Return every n-th row of a batch, from row `thread` on, with a dropout seed of its own."""
    # A batch is sorted by length: with a stride, each thread gets long and short rows.
    rows = slice_batch(batch, slice(thread, None, threads))
    return replace(rows, seed=batch.seed + thread)


def _add_tensors(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    """Return the element-wise sums of two lists of tensors."""
    return list(torch._foreach_add(first, second))  # pyright: ignore[reportPrivateImportUsage]
