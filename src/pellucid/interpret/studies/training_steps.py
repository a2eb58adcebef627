"""How a model learns a pair: the loss of each piece, one update, and what its checkpoints write."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.data.tokenizer import BOS
from pellucid.decode.request import SearchConfig
from pellucid.decode.torch_engine import log_probabilities, pad_sentences, score_targets
from pellucid.decode.torch_models import inference_only
from pellucid.decode.translator import Translator
from pellucid.interpret.trace.edits import Record
from pellucid.interpret.trace.session import Trace
from pellucid.model import Transformer
from pellucid.model.watch import Watch, unseen
from pellucid.store.directory import load_bundle

# Learning rate of the one update. It is plain gradient descent, for one pair; training uses many
# pairs and another optimizer.
RATE = 0.05
_FIRST_PATTERN = "encoder.0.self.pattern"
MOST_PARAMETERS = 100_000_000  # the update copies the model, and each checkpoint is loaded


@dataclass(frozen=True)
class ShownUpdate:
    """One number of a weight, the gradient of the mean loss in it, and the number after the update.

    The row is the output vector of the piece with the largest loss, and the column the number of
    it with the largest gradient.
    """

    parameter: str
    row: int
    column: int
    before: float
    gradient: float
    rate: float
    after: float


@dataclass(frozen=True)
class CheckpointState:
    """A checkpoint of the run: its step, what it writes, and its mean loss on the pair in nats."""

    step: int
    translation: str
    loss: float


@dataclass(frozen=True)
class ShownBatch:
    """Two pairs as one batch, a row each; the shorter of a side ends in padding.

    With `weights` the first piece of each source row reads its row, in the first head of the
    encoder; `losses` has the loss of each piece of the first pair, in nats.
    """

    sources: list[list[str]]
    targets: list[list[str]]
    weights: list[list[float]]
    losses: list[float]


def study_training(trace: Trace, target: str | None = None, beside: str | None = None) -> dict[str, Any]:
    """Return how the model of a trace learns its sentence with a translation, by default its own.

    `reads` and `writes` are the pieces at each position, `losses` and `losses_after` their losses
    in nats, before and after one update on this pair. With a sentence `beside` it, which the model
    translates, `batch` has both pairs as a `ShownBatch`. Raises ValueError for a blank translation,
    one with more pieces than the model takes, and for a model that is too large.
    """
    tokenizer, config = trace.tokenizer, trace.config
    ids = trace.target.ids if target is None else tokenizer.encode_target([target])[0]
    if target is not None and len(ids) < 2:  # EOS alone
        raise ValueError("the translation is blank; write one, or leave it out")
    if len(ids) > config.max_positions:
        problem = f"the translation has {len(ids)} pieces, this model takes {config.max_positions}"
        raise ValueError(problem)
    count = sum(parameter.numel() for parameter in trace.model.parameters())
    if count > MOST_PARAMETERS:
        problem = f"an update is shown for at most {MOST_PARAMETERS:,} parameters"
        raise ValueError(f"{problem}, and this model has {count:,}")

    losses, losses_after, update = update_once(trace.model, trace.source.ids, ids)
    return {
        "target": trace.target.text if target is None else target,
        "reads": tokenizer.target_pieces([BOS, *ids[:-1]]),
        "writes": tokenizer.target_pieces(ids),
        "losses": losses,
        "losses_after": losses_after,
        "update": {**asdict(update), "piece": tokenizer.target_pieces([update.row])[0]},
        "batch": None if beside is None else asdict(batch_pairs(trace, ids, beside)),
        "checkpoints": [asdict(state) for state in read_checkpoints(trace, ids)],
    }


def update_once(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> tuple[list[float], list[float], ShownUpdate]:
    """Update a copy of a model on one pair; return its losses before and after, and one number."""
    copy = deepcopy(model)
    copy.requires_grad_(True)
    with torch.enable_grad():
        [losses] = _piece_losses(copy, [source], [target])
        losses.mean().backward()

    weight = copy.output_embedding.weight
    [name] = [name for name, parameter in copy.named_parameters() if parameter is weight]
    assert weight.grad is not None
    row = target[int(losses.argmax())]
    column = int(weight.grad[row].abs().argmax())
    before, gradient = weight[row, column].item(), weight.grad[row, column].item()
    with torch.no_grad():
        for parameter in copy.parameters():
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad
        [after] = _piece_losses(copy, [source], [target])

    update = ShownUpdate(name, row, column, before, gradient, RATE, weight[row, column].item())
    return losses.tolist(), after.tolist(), update


def batch_pairs(trace: Trace, target: Sequence[int], beside: str) -> ShownBatch:
    """Read the pair of a trace and another sentence, with the model's translation, as one batch."""
    other = trace.again(beside)
    sources = [trace.source.ids, other.source.ids]
    targets = [list(target), other.target.ids]
    record = Record(_FIRST_PATTERN)
    with inference_only(trace.model):
        losses = _piece_losses(trace.model, sources, targets, record)

    tokenizer, cpu = trace.tokenizer, torch.device("cpu")
    first_head_and_query = record[_FIRST_PATTERN][:, 0, 0]
    return ShownBatch(
        sources=list(map(tokenizer.source_pieces, pad_sentences(sources, cpu).tolist())),
        targets=list(map(tokenizer.target_pieces, pad_sentences(targets, cpu).tolist())),
        weights=first_head_and_query.tolist(),
        losses=losses[0, : len(target)].tolist(),
    )


def _piece_losses(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    watch: Watch = unseen,
) -> Float[Tensor, "B T"]:
    """Return minus the log-probability of each target piece; its position reads the one before.

    What stands where a row is padded is no loss.
    """
    device = model.output_embedding.weight.device
    shifted = [[BOS, *target[:-1]] for target in targets]
    source = pad_sentences([list(row) for row in sources], device)
    logits = model(source, pad_sentences(shifted, device), watch)
    wanted = pad_sentences([list(row) for row in targets], device)
    return -log_probabilities(logits).gather(2, wanted[:, :, None])[:, :, 0]


def read_checkpoints(trace: Trace, target: Sequence[int]) -> Iterator[CheckpointState]:
    """Yield what the first, middle and last checkpoint beside the model make of the pair."""
    folder = trace.origin.bundle.directory.resolve().parent / "checkpoints"
    paths = sorted(folder.glob("step-*"))
    for path in dict.fromkeys(paths[place] for place in (0, len(paths) // 2, -1) if paths):
        state = _read_checkpoint(trace, path, target)
        if state is not None:
            yield state


def _read_checkpoint(trace: Trace, path: Path, target: Sequence[int]) -> CheckpointState | None:
    """Return what a checkpoint makes of the pair; None if it is gone, or has another vocabulary."""
    try:
        bundle = load_bundle(path)
    except (ValueError, OSError):
        return None
    if bundle.tokenizer.contents != trace.tokenizer.contents:
        return None

    translator = Translator(bundle.model, bundle.tokenizer, profile=trace.origin.translator.profile)
    [translation] = translator.translate([trace.sentence], SearchConfig(beam=trace.origin.beam))
    with inference_only(bundle.model):
        [log_probs] = score_targets(bundle.model, [trace.source.ids], [list(target)])
    loss = -sum(log_probs) / len(log_probs)
    return CheckpointState(bundle.manifest["step"], translation.text, loss)
