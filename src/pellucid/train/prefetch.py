"""Prefetching: the batches of the next update are made on a thread while the current one computes."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pellucid.data.batching import Batch
from pellucid.data.stream import BatchSpec
from pellucid.train.distributed import Workers, worker_batches


class Prefetcher:
    """Makes this worker's batches of an update and, on a thread, starts on those of the next."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._pending: dict[tuple[int, ...], Future[list[Batch]]] = {}

    def batches(self, specs: Sequence[BatchSpec], following: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
        """Return the batches of `specs`, and start making those of `following`."""
        # By seed: a stream that was set back asks for other batches than were prefetched, and gets its own.
        prefetched = self._pending.get(spec_seeds(specs))
        batches = prefetched.result() if prefetched else make_batches(specs, workers)
        self._pending = (
            {spec_seeds(following): self._thread.submit(make_batches, following, workers)} if following else {}
        )
        return batches


def spec_seeds(specs: Sequence[BatchSpec]) -> tuple[int, ...]:
    """Return the seeds of some batches, which tell them apart."""
    return tuple(spec.seed for spec in specs)


def make_batches(specs: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
    """Return this worker's batches, in pinned memory if it computes on a GPU."""
    batches = worker_batches(specs, workers)
    # A GPU can copy from pinned memory while it computes.
    return [batch.pin_memory() for batch in batches] if workers.device.type == "cuda" else batches
