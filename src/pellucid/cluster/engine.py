"""Runs the parts of a job on the processes of Ray, which schedules, places and starts them again."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pellucid.cluster.part_worker import MOST_TRIES, Job, PartWorker, read_part_rows
from pellucid.cluster.progress import PartOutcome

_FILES_READ_AT_ONCE = 4


class ClusterFailed(Exception):
    """Error of Ray itself, or of every worker as it starts."""


@dataclass(frozen=True)
class WorkerPlan:
    """Cores and GPUs of each worker, and the most workers; None for as many as there is room for."""

    cores: int = 1
    gpus: int = 0
    most: int | None = None


def run_job(
    job: Job, workers: WorkerPlan, on_start: Callable[[int], object]
) -> Iterator[PartOutcome]:
    """Yield what becomes known while the parts of a job are worked on, in any order; Ray must be connected.

    `on_start` is called with the number of workers. Raises ValueError if there is no room for a single one,
    and ClusterFailed, with the reason, where no worker can start and where Ray fails.
    """
    import ray.data
    import ray.exceptions

    _set_context(ray.data.DataContext.get_current())
    count = count_workers(ray.cluster_resources(), workers)
    on_start(count)

    files = ray.data.from_items(
        [{"work": number} for number in range(len(job.works))],
        override_num_blocks=len(job.works),
    )
    # Reading is a small share of the work. It takes no core of its own, so that it never waits for one.
    rows = files.flat_map(
        partial(read_part_rows, job),  # pyright: ignore[reportArgumentType]  # an iterator will do
        compute=ray.data.TaskPoolStrategy(size=min(_FILES_READ_AT_ONCE, len(job.works))),
        num_cpus=0,
    )
    # One part at a time: otherwise the first worker that has started would be given two of few.
    pool = ray.data.ActorPoolStrategy(
        min_size=1,
        max_size=workers.most or count,
        initial_size=count,
        max_tasks_in_flight_per_actor=1,
    )
    outcomes = rows.map(
        PartWorker,  # pyright: ignore[reportArgumentType]  # a class whose objects are called
        fn_constructor_args=(job,),
        compute=pool,
        num_cpus=workers.cores,
        num_gpus=workers.gpus,
    )

    try:
        for row in outcomes.iter_rows():
            yield PartOutcome.from_row(row)
    except ray.exceptions.RayError as error:
        raise ClusterFailed(str(error).strip().splitlines()[-1]) from error


def _set_context(context: Any) -> None:
    """Set how Ray Data works, in its `DataContext`."""
    # Every part travels by itself: Ray would collect parts until they fill 128 MB, for one worker.
    context.target_max_block_size = 1
    context.max_consecutive_actor_init_deaths = MOST_TRIES
    context.execution_no_progress_timeout_s = -1  # a part may take as long as it takes
    context.enable_progress_bars = False
    context.print_on_execution_start = False


def count_workers(resources: Mapping[str, float], workers: WorkerPlan) -> int:
    """Return the number of workers that there is room for, and that are wanted.

    >>> resources = {"CPU": 16, "GPU": 2}
    >>> count_workers(resources, WorkerPlan()), count_workers(resources, WorkerPlan(gpus=1))
    (16, 2)
    >>> count_workers(resources, WorkerPlan(cores=4, most=3))
    3
    """
    cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    room = cpus // workers.cores
    if workers.gpus:
        room = min(room, gpus // workers.gpus)

    if not room:
        needed = f"{workers.cores} core{'s' * (workers.cores > 1)}"
        if workers.gpus:
            needed += f" and {workers.gpus} GPU"
        raise ValueError(f"a worker needs {needed}, and Ray has {cpus} cores and {gpus} GPUs")
    return room if workers.most is None else min(room, workers.most)
