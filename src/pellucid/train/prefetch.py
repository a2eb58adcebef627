"""Batches made ahead: on a thread, while the update before them computes."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pellucid.data.batching import Batch
from pellucid.data.stream import BatchSpec
from pellucid.train.distributed import Workers, worker_batches


class Prefetcher:
    """This worker's batches of an update, those of the next begun; a batch is a function of its place either way.

    Places are told apart by their seeds, so that a stream that was set back gets its own.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._pending: dict[tuple[int, ...], Future[list[Batch]]] = {}

    def batches(self, places: Sequence[BatchSpec], following: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
        """The batches of these places; those of the `following` are begun."""
        begun = self._pending.get(spec_seeds(places))
        parts = begun.result() if begun else make_batches(places, workers)
        self._pending = (
            {spec_seeds(following): self._thread.submit(make_batches, following, workers)} if following else {}
        )
        return parts


def spec_seeds(places: Sequence[BatchSpec]) -> tuple[int, ...]:
    """By what these places are known."""
    return tuple(each.seed for each in places)


def make_batches(places: Sequence[BatchSpec], workers: Workers) -> list[Batch]:
    """For a GPU they are where it can fetch them while it computes."""
    parts = worker_batches(places, workers)
    return [part.pin_memory() for part in parts] if workers.device.type == "cuda" else parts
