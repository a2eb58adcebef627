"""Training state: everything the next update depends on, saved as a whole and restored exactly."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pellucid.data.stream import StageBeginning, Stream
from pellucid.data.tokenizer import Tokenizer
from pellucid.model import Transformer
from pellucid.store.atomic import WriteFailed, explain_write_error, staging_paths
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training.config import OptimConfig
from pellucid.training.distributed import Prefetcher, Workers, shard_like
from pellucid.training.optimizer import Adam, Optimizer


@dataclass
class SinceReport:
    """Seconds, loss and target tokens added up since the last report."""

    seconds: float = 0.0
    loss: float = 0.0
    target_tokens: int = 0


@dataclass
class RunCounts:
    """Counters and scores of a run so far."""

    step: int = 0
    seconds: float = 0.0
    target_tokens: int = 0
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    rollbacks: int = 0
    fruitless_rollbacks: int = 0
    halved_batches: int = 0
    pairs_left_out: int = 0
    dev_score: float | None = None
    # Step, BLEU and dev loss of best/, and the highest BLEU so far.
    best_step: int | None = None
    best_score: float = -1.0
    best_loss: float = sys.float_info.max
    highest_score: float = -1.0
    evaluations: int = 0
    evaluation_seconds: float = 0.0
    stale_evaluations: int = 0
    since_report: SinceReport = field(default_factory=SinceReport)


@dataclass
class TrainState:
    """Everything that training changes.

    No random generator is part of it: dropout is seeded by the position of each batch in the
    stream.
    """

    model: Transformer
    optimizer: Optimizer
    stream: Stream
    counts: RunCounts = field(default_factory=RunCounts)
    prefetcher: Prefetcher = field(default_factory=Prefetcher)

    @property
    def parameters(self) -> int:
        """Number of parameters of the model."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def gather_state(state: TrainState, workers: Workers) -> TrainState:
    """Gather a sharded state on the first worker; a state that is not sharded is returned unchanged.

    All workers must call this at once. The others get back the state that they have.
    """
    model, optimizer_state = workers.gather_model(state.model, state.optimizer.state)
    if model is state.model:
        return state
    optimizer = Adam([], OptimConfig())  # holds the states only
    optimizer.state = dict(optimizer_state)
    return replace(state, model=model, optimizer=optimizer)


def save_state(state: TrainState, tokenizer: Tokenizer, directory: Path, **manifest: Any) -> None:
    """Write a checkpoint: a model directory with the optimiser and the position in the data.

    Afterwards either the whole directory is there or none of it.
    """

    def write_training_state(folder: Path) -> None:
        tensors = {}
        for name, parameter in state.model.named_parameters():
            for key, value in state.optimizer.state.get(parameter, {}).items():
                # safetensors takes dense tensors only, and no nested names.
                tensors[f"{key}.{name}"] = value.cpu().contiguous()

        save_file(tensors, folder / "training.safetensors")

        numbers = {"counts": asdict(state.counts), "stream": list(state.stream.position)}
        began = state.stream.began
        # A run without stages has begun as the settings say.
        if began.epoch or began.noisy or not all(began.shown):
            numbers["stage"] = asdict(began)
        text = json.dumps(numbers, indent=1) + "\n"
        (folder / "training.json").write_text(text, encoding="utf-8")

    save_bundle(directory, state.model, tokenizer, also=write_training_state, **manifest)


def restore_state(state: TrainState, directory: Path) -> None:
    """Restore optimiser, stream and counts of `state` as saved in `directory`.

    Its model is loaded already. Raises ValueError for a directory that holds a model but no
    training state.
    """
    tensors_file, numbers_file = directory / "training.safetensors", directory / "training.json"
    if not (tensors_file.is_file() and numbers_file.is_file()):
        raise ValueError(f"{directory} is a model, not a checkpoint: training cannot go on from it")

    numbers = json.loads(numbers_file.read_text(encoding="utf-8"))
    _load_optimizer(state, load_file(tensors_file))

    began = None
    if stage := numbers.get("stage"):
        pairs_seen, shown = tuple(stage["pairs_seen"]), tuple(stage["shown"])
        began = StageBeginning(stage["epoch"], pairs_seen, shown, stage["noisy"])
    # The order of the data is a function of the seed, the epoch and the stage. A position without a
    # window is of few pairs, or of an older version, which ordered any number as a whole.
    position, old = numbers["stream"], state.stream
    state.stream = Stream(
        old.encoded,
        old.batch_tokens,
        *position,
        began=began,
        noise=old.noise,
        terms=old.terms,
        similar=old.similar,
        whole=len(position) == 3,
    )

    counts = numbers["counts"]
    since_report = SinceReport(**counts.pop("since_report"))
    state.counts = RunCounts(**counts, since_report=since_report)


def reset_weights(state: TrainState, model: Transformer, directory: Path) -> None:
    """Give `state` the weights of `model` and the optimiser saved in `directory`, and no more."""
    with torch.no_grad():
        for parameter, saved in zip(state.model.parameters(), model.parameters(), strict=True):
            parameter.copy_(shard_like(saved, parameter))
    _load_optimizer(state, load_file(directory / "training.safetensors"))


def _load_optimizer(state: TrainState, tensors: dict[str, Tensor]) -> None:
    """Restore the running means and step counts of every parameter, by the names of `tensors`."""
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        # exp_avg.encoder.0.self.qkv.weight, for example: the first word is the optimizer's, the
        # rest the parameter's.
        kind, _, name = key.partition(".")
        by_parameter.setdefault(name, {})[kind] = value

    for name, parameter in state.model.named_parameters():
        if name in by_parameter:
            saved = by_parameter[name]
            restored = {kind: shard_like(value, parameter) for kind, value in saved.items()}
            state.optimizer.state[parameter] = restored


def list_checkpoints(run_directory: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    # Steps have leading zeros, so that names sort like numbers; a directory still being written has
    # another name.
    paths = (run_directory / "checkpoints").glob("step-*")
    return sorted(path for path in paths if path.name[5:].isdigit())


def checkpoint_path(run_directory: Path, step: int) -> Path:
    """Return the directory of the checkpoint of a step."""
    return run_directory / "checkpoints" / f"step-{step:08d}"


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step of a checkpoint, by the name of its directory."""
    return int(checkpoint.name.removeprefix("step-"))


def prune_checkpoints(run_directory: Path, keep: set[Path]) -> None:
    """Remove checkpoints that are not to be kept, and half-written ones that a crash left.

    The newest always stays.
    """
    for path in list_checkpoints(run_directory)[:-1]:
        if path not in keep:
            # A half-removed directory must not look like a checkpoint.
            path.rename(staging_paths(path)[1])

    for path in (run_directory / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)  # what cannot be removed now goes next time


def average_weights(directories: list[Path], into: Transformer) -> None:
    """Set the weights of `into` to the mean of the saved ones, summed in float64 (paper, 6.1)."""
    sums: dict[str, Tensor] = {}
    for directory in directories:
        # One model after the other: only the sums of all are in memory.
        for name, parameter in load_bundle(directory).model.named_parameters():
            sums[name] = sums.get(name, 0.0) + parameter.detach().double()

    with torch.no_grad():
        for name, parameter in into.named_parameters():
            parameter.copy_(sums[name] / len(directories))


@contextmanager
def explain_failed_write(path: Path, size: int) -> Iterator[None]:
    """Turn any error of writing `path`, which takes about `size` bytes, into WriteFailed."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        # The path itself may not be there yet; the nearest folder that is lies on the same disk.
        folder = next(folder for folder in path.resolve().parents if folder.is_dir())
        free = shutil.disk_usage(folder).free
        raise WriteFailed(
            f"{path} could not be written: {explain_write_error(error)} "
            f"(it takes about {size / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free there)"
        ) from None
