"""Sums of the gradients of an update over all workers, on their way while the backward pass goes on."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from pellucid.model import Transformer

T = TypeVar("T", bound=Tensor)

_BUCKET = 2**22  # numbers that are sent in one message

# The parts of a model in the order in which a batch goes through them; the backward pass completes
# their gradients in the opposite order.
_ORDER = (
    *("source_embedding", "source_positions", "encoder", "encoder_norm"),
    *("target_embedding", "target_positions", "decoder", "decoder_norm"),
    *("output_embedding", "output_bias"),
)


class GradientSums:
    """Sums the gradients of an update over all workers; here there is nothing to send.

    The worker is alone, or FSDP sends the gradients within its backward pass.
    """

    def __init__(self, model: Transformer):
        self.parameters = list(model.parameters())

    @property
    def has_begun(self) -> bool:
        """Whether a part of the gradients is on its way."""
        return False

    def sending(self) -> AbstractContextManager[object]:
        """Return a context for the last backward pass of an update: complete gradients are sent."""
        return nullcontext()

    def send_rest(self) -> None:
        """Send all gradients that are not on their way; a worker without a batch sends zeros."""

    def receive(self) -> list[Tensor]:
        """Return the sum of each gradient, in its memory; all must have been sent."""
        return [_gradient_of(parameter) for parameter in self.parameters]

    def discard(self) -> None:
        """Forget the sums when all are there; the gradients are as they were."""


class BucketSums(GradientSums):
    """Sums of gradients that are sent in buckets, as soon as the backward pass has completed them.

    It completes the gradients of the last layers first, so these are sent first. Every worker sends
    the same buckets in the same order, whenever its gradients are there.
    """

    def __init__(self, model: Transformer):
        super().__init__(model)
        self._buckets = [*bucket_tensors(_order_parameters(model))][::-1]
        self._sent: list[tuple[Tensor, Any]] = []  # the numbers of each bucket, and its message

    @property
    def has_begun(self) -> bool:
        return bool(self._sent)

    @contextmanager
    def sending(self) -> Iterator[None]:
        incomplete = set(self.parameters)

        def complete(parameter: nn.Parameter) -> None:
            incomplete.discard(parameter)

            while len(self._sent) < len(self._buckets):
                if not incomplete.isdisjoint(self._buckets[len(self._sent)]):
                    break
                self._send_bucket()

        hooks = [each.register_post_accumulate_grad_hook(complete) for each in self.parameters]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def send_rest(self) -> None:
        while len(self._sent) < len(self._buckets):
            self._send_bucket()

    def _send_bucket(self) -> None:
        bucket = self._buckets[len(self._sent)]
        # A copy: the gradients are sent again if a worker runs out of memory in its backward pass.
        flat = torch.cat([_gradient_of(parameter).flatten() for parameter in bucket])
        self._sent.append((flat, distributed.all_reduce(flat, async_op=True)))

    def receive(self) -> list[Tensor]:
        gradients = {parameter: _gradient_of(parameter) for parameter in self.parameters}
        for bucket, (flat, message) in zip(self._buckets, self._sent, strict=True):
            message.wait()
            copy_parts(flat, [gradients[parameter] for parameter in bucket])
        return list(gradients.values())

    def discard(self) -> None:
        for _, message in self._sent:
            message.wait()
        self._sent.clear()


def _order_parameters(model: Transformer) -> list[nn.Parameter]:
    """Return the weights of a model in the order in which a batch goes through its parts."""

    def place(named: tuple[str, nn.Parameter]) -> int:
        return _ORDER.index(named[0].partition(".")[0])

    return [parameter for _, parameter in sorted(model.named_parameters(), key=place)]


def _gradient_of(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def copy_parts(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy the numbers of one long tensor into tensors, one behind the other."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view_as(tensor))


def bucket_tensors(tensors: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the tensors in their order, in groups of up to `_BUCKET` numbers.

    >>> sizes = (2**21, 2**20, 2**22, 5, 7)
    >>> [len(bucket) for bucket in bucket_tensors([torch.empty(size) for size in sizes])]
    [2, 1, 2]
    """
    starts, room = [0], _BUCKET
    for i, tensor in enumerate(tensors):
        # A tensor larger than a bucket gets one of its own.
        if tensor.numel() > room and i > starts[-1]:
            starts.append(i)
            room = _BUCKET
        room -= tensor.numel()

    for start, end in pairwise([*starts, len(tensors)]):
        yield tensors[start:end]
