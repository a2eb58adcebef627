"""The arrays of a model and the boxes of its picture, read from the live model."""

from collections.abc import Iterable, Sequence
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
    """Weight or table: its name, shape, whether training changes it, and the first name of an array that is shared."""

    name: str
    module: str
    kind: str  # class of the module that holds it
    shape: tuple[int, ...]
    trained: bool
    shared_with: str | None = None

    @property
    def numbers(self) -> int:
        """Number of values it holds; 0 if they are counted under another name."""
        return 0 if self.shared_with else prod(self.shape)


@dataclass(frozen=True)
class ArchitectureBox:
    """Rectangle of the picture: its title, its sizes, and the number of parameters that are its own."""

    title: str
    detail: str
    kind: str  # embedding, positions, self, cross, ffn, norm or output
    parameters: int = 0


@dataclass(frozen=True)
class EqualLayers:
    """Consecutive layers that look alike: their number, and their parts, each with its norm before or behind it."""

    times: int
    parts: tuple[tuple[ArchitectureBox, ...], ...]
    norm_first: bool


@dataclass(frozen=True)
class _Architecture:
    """The two stacks from the bottom up, with the output layer on top of the decoder."""

    encoder: tuple[ArchitectureBox | EqualLayers, ...]
    decoder: tuple[ArchitectureBox | EqualLayers, ...]
    parameters: int
    shared: tuple[str, ...]


def list_arrays(model: Transformer) -> list[Array]:
    """List every array of the model in the model's order.

    An array with several names is listed under each.
    """
    first: dict[int, str] = {}
    arrays = []
    for module_name, module in model.named_modules(remove_duplicate=False):
        tensors: list[tuple[str, Tensor]] = [*module._parameters.items(), *module._buffers.items()]  # pyright: ignore
        for leaf, tensor in tensors:
            if tensor is None:
                continue
            name = f"{module_name}.{leaf}".lstrip(".")
            # by identity: tied embeddings are one tensor object under several names
            first_name = first.setdefault(id(tensor), name)
            trained = isinstance(tensor, nn.Parameter) and tensor.requires_grad
            shared = first_name if first_name != name else None
            arrays.append(
                Array(
                    name,
                    module_name,
                    type(module).__name__,
                    tuple(tensor.shape),
                    trained,
                    shared,
                )
            )

    return arrays


def count_trained(arrays: Sequence[Array]) -> int:
    """Count the parameters that training changes, each once."""
    return sum(array.numbers for array in arrays if array.trained)


def count_fixed(arrays: Sequence[Array]) -> int:
    """Count the numbers that are computed and never trained."""
    return sum(array.numbers for array in arrays if not array.trained)


def read_architecture(model: Transformer) -> _Architecture:
    """Read from the modules and their weights the architecture that `plots.architecture` draws."""
    arrays = list_arrays(model)
    shared = tuple(f"{array.name} is {array.shared_with}" for array in arrays if array.shared_with)
    encoder = _stack_boxes(model, "source", model.encoder, model.encoder_norm)
    decoder = _stack_boxes(model, "target", model.decoder, model.decoder_norm)
    decoder.append(_output_box(model))
    return _Architecture(tuple(encoder), tuple(decoder), count_trained(arrays), shared)


def _stack_boxes(
    model: Transformer, side: str, layers: Iterable[nn.Module], norm: nn.Module
) -> list[ArchitectureBox | EqualLayers]:
    """Return the boxes of a stack from the bottom up: embedding, positions, layers and norm."""
    boxes: list[ArchitectureBox | EqualLayers] = [_embedding_box(model, side)]
    boxes += _positions_box(getattr(model, f"{side}_positions"))
    # Neighbouring layers that look alike are drawn once.
    for look, alike in groupby(map(_describe_layer, layers)):
        boxes.append(EqualLayers(len(list(alike)), *look))
    return boxes + _norm_box(norm, "norm")


def _describe_layer(layer: nn.Module) -> tuple[tuple[tuple[ArchitectureBox, ...], ...], bool]:
    """Return the parts of a layer in the order of computation, and whether their norms come first."""
    parts, norm_first = [], False
    for name, sublayer in layer.named_children():
        # a residual is described together with the sublayer it goes around
        if isinstance(sublayer, Residual):
            continue
        residual = layer.get_submodule(f"{name}_residual")
        assert isinstance(residual, Residual)
        if isinstance(sublayer, Attention):
            # only a decoder layer has cross-attention, and its self-attention is the masked one
            masked = "masked " if name == "self" and hasattr(layer, "cross") else ""
            title = f"{masked}{name}-attention"
            detail = f"{sublayer.heads} heads of {sublayer.width}"
        else:
            assert isinstance(sublayer, FeedForward)
            # a gated activation halves this width: `inner`
            # then has two rows for each column of `outer`
            inner_width, d_model = sublayer.inner.weight.shape
            activation = getattr(
                sublayer.activation,
                "__name__",
                type(sublayer.activation).__name__,
            )
            outer_width = sublayer.outer.weight.shape[0]
            title = "feed-forward"
            detail = f"{d_model} → {inner_width} → {outer_width}, {activation}"

        boxes = [ArchitectureBox(title, detail, name, _count_own_parameters(sublayer))]
        norm_first = residual.norm_first
        norm = _norm_box(residual.norm, "norm" if norm_first else "add, norm")
        parts.append(tuple(norm + boxes if norm_first else boxes + norm))

    return tuple(parts), norm_first


def _norm_box(norm: nn.Module, title: str) -> list[ArchitectureBox]:
    """Return the box of a norm in a list, or an empty list where the model has none."""
    if isinstance(norm, nn.Identity):
        return []
    return [ArchitectureBox(title, type(norm).__name__, "norm", _count_own_parameters(norm))]


def _embedding_box(model: Transformer, side: str) -> ArchitectureBox:
    """Return the box of an embedding table, and whether the table is shared with the source."""
    table = getattr(model, f"{side}_embedding")
    pieces, width = table.weight.shape
    # a shared table is counted once, in the box of the source
    shared = side == "target" and table is model.source_embedding
    detail = f"{pieces:,} × {width}{', shared' if shared else ''}"
    return ArchitectureBox(
        f"{side} embedding",
        detail,
        "embedding",
        0 if shared else _count_own_parameters(table),
    )


def _output_box(model: Transformer) -> ArchitectureBox:
    table = model.output_embedding
    pieces, width = table.weight.shape
    shared = table is model.target_embedding
    bias = 0 if model.output_bias is None else model.output_bias.numel()
    detail = f"{width} → {pieces:,}{', shared' if shared else ''}{', with bias' if bias else ''}"
    return ArchitectureBox(
        "logits, softmax",
        detail,
        "output",
        (0 if shared else _count_own_parameters(table)) + bias,
    )


def _positions_box(module: Positions) -> list[ArchitectureBox]:
    """Return the box of a position encoding in a list, or an empty list where the model has none."""
    if isinstance(module, Sinusoidal):
        return [ArchitectureBox("+ positions", "sines and cosines, fixed", "positions")]
    if isinstance(module, Learned):
        rows, width = module.table.shape
        return [
            ArchitectureBox(
                "+ positions",
                f"{rows:,} × {width}, trained",
                "positions",
                rows * width,
            )
        ]

    if isinstance(module, Rotary):
        return [ArchitectureBox("positions", "turn queries and keys, fixed", "positions")]
    return []


def _count_own_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
