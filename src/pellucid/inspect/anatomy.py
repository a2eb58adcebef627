"""What a model is made of, read from the live model: every array, who shares it, and the boxes of its picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from torch import Tensor, nn

from pellucid.model import Transformer
from pellucid.model.attention import Attention
from pellucid.model.layers import FeedForward, Residual
from pellucid.model.positions import Learned, Positions, Rotary, Sinusoidal


@dataclass(frozen=True)
class Array:
    """A weight or a table: where it stands, its shape, whether training changes it, and whose it is if it is shared."""

    name: str
    module: str
    kind: str
    """The class of the module that holds it."""
    shape: tuple[int, ...]
    trained: bool
    shared_with: str | None = None

    @property
    def numbers(self) -> int:
        """How many it holds, 0 if they are another's."""
        return 0 if self.shared_with else prod(self.shape)


@dataclass(frozen=True)
class ArchitectureBox:
    """A rectangle of the picture: what it is, with which sizes, and how many parameters are its own."""

    title: str
    detail: str
    kind: str
    """embedding, positions, self, cross, ffn, norm or output."""
    parameters: int = 0


@dataclass(frozen=True)
class EqualLayers:
    """So many layers one after the other that look the same: their parts, each with its norm before or behind it."""

    times: int
    parts: tuple[tuple[ArchitectureBox, ...], ...]
    norm_first: bool


@dataclass(frozen=True)
class Architecture:
    """The two stacks from the bottom up, and what stands on the decoder."""

    encoder: tuple[ArchitectureBox | EqualLayers, ...]
    decoder: tuple[ArchitectureBox | EqualLayers, ...]
    parameters: int
    shared: tuple[str, ...]


def list_arrays(model: Transformer) -> list[Array]:
    """Everything the model holds, in its own order; an array with several names is listed under each of them."""
    first: dict[int, str] = {}
    found = []
    for module_name, module in model.named_modules(remove_duplicate=False):
        own: list[tuple[str, Tensor]] = [*module._parameters.items(), *module._buffers.items()]  # pyright: ignore
        for leaf, tensor in own:
            if tensor is None:
                continue
            name = f"{module_name}.{leaf}".lstrip(".")
            before = first.setdefault(id(tensor), name)
            trained = isinstance(tensor, nn.Parameter) and tensor.requires_grad
            shared = before if before != name else None
            found.append(Array(name, module_name, type(module).__name__, tuple(tensor.shape), trained, shared))
    return found


def count_trained(found: Sequence[Array]) -> int:
    """Parameters that training changes, each counted once."""
    return sum(each.numbers for each in found if each.trained)


def count_fixed(found: Sequence[Array]) -> int:
    """Numbers that are computed and never trained."""
    return sum(each.numbers for each in found if not each.trained)


def read_architecture(model: Transformer) -> Architecture:
    """What `plots.architecture` draws, all of it read from the modules and their weights."""
    found = list_arrays(model)
    shared = tuple(f"{each.name} is {each.shared_with}" for each in found if each.shared_with)
    encoder = [
        embedding_box(model, "source"),
        *positions_box(model.source_positions),
        *group_layers(model.encoder),
        *norm_box(model.encoder_norm, "norm"),
    ]
    decoder = [
        embedding_box(model, "target"),
        *positions_box(model.target_positions),
        *group_layers(model.decoder),
        *norm_box(model.decoder_norm, "norm"),
        output_box(model),
    ]
    return Architecture(tuple(encoder), tuple(decoder), count_trained(found), shared)


def group_layers(layers: nn.ModuleList) -> list[EqualLayers]:
    """Neighbours that look the same, together."""
    found = []
    for look, same in groupby(map(describe_layer, layers)):
        found.append(EqualLayers(len(list(same)), *look))
    return found


def describe_layer(layer: nn.Module) -> tuple[tuple[tuple[ArchitectureBox, ...], ...], bool]:
    """The parts of a layer in the order of computation, and whether their norms come first."""
    parts, first = [], False
    for name, part in layer.named_children():
        if isinstance(part, Residual):
            continue
        around = layer.get_submodule(f"{name}_residual")
        assert isinstance(around, Residual)
        masked = name == "self" and hasattr(layer, "cross")
        inside = [attention_box(part, name, masked)] if isinstance(part, Attention) else [ffn_box(part)]
        first = around.norm_first
        norm = norm_box(around.norm, "norm" if first else "add, norm")
        parts.append(tuple(norm + inside if first else inside + norm))
    return tuple(parts), first


def attention_box(part: Attention, name: str, masked: bool) -> ArchitectureBox:
    """Heads, and how wide they are."""
    title = {"self": "self-attention", "cross": "cross-attention"}[name]
    return ArchitectureBox(
        f"masked {title}" if masked else title, f"{part.heads} heads of {part.width}", name, count_own_parameters(part)
    )


def ffn_box(part: nn.Module) -> ArchitectureBox:
    """The widths it goes through."""
    assert isinstance(part, FeedForward)
    inner, into = part.inner.weight.shape
    activation = getattr(part.activation, "__name__", type(part.activation).__name__)
    return ArchitectureBox(
        "feed-forward",
        f"{into} → {inner} → {part.outer.weight.shape[0]}, {activation}",
        "ffn",
        count_own_parameters(part),
    )


def norm_box(part: nn.Module, title: str) -> list[ArchitectureBox]:
    """A norm, unless there is none."""
    return (
        []
        if isinstance(part, nn.Identity)
        else [ArchitectureBox(title, type(part).__name__, "norm", count_own_parameters(part))]
    )


def embedding_box(model: Transformer, side: str) -> ArchitectureBox:
    """Which table is read, and whose it is."""
    table = getattr(model, f"{side}_embedding")
    pieces, width = table.weight.shape
    shared = side == "target" and table is model.source_embedding
    own_here = 0 if shared else count_own_parameters(table)
    return ArchitectureBox(
        f"{side} embedding", f"{pieces:,} × {width}{', shared' if shared else ''}", "embedding", own_here
    )


def output_box(model: Transformer) -> ArchitectureBox:
    """What makes logits of states."""
    table = model.output_embedding
    pieces, width = table.weight.shape
    shared = table is model.target_embedding
    bias = 0 if model.output_bias is None else model.output_bias.numel()
    words = f"{width} → {pieces:,}{', shared' if shared else ''}{', with bias' if bias else ''}"
    return ArchitectureBox("logits, softmax", words, "output", (0 if shared else count_own_parameters(table)) + bias)


def positions_box(module: Positions) -> list[ArchitectureBox]:
    """How order enters; nothing where it does not."""
    if isinstance(module, Sinusoidal):
        return [ArchitectureBox("+ positions", "sines and cosines, fixed", "positions")]
    if isinstance(module, Learned):
        return [
            ArchitectureBox(
                "+ positions",
                f"{module.table.shape[0]:,} × {module.table.shape[1]}, trained",
                "positions",
                count_own_parameters(module),
            )
        ]
    if isinstance(module, Rotary):
        return [ArchitectureBox("positions", "turn queries and keys, fixed", "positions")]
    return []


def count_own_parameters(module: nn.Module) -> int:
    """Trained numbers inside a module."""
    return sum(each.numel() for each in module.parameters())
