"""The weights of a model as a safetensors file: read as a stranger's, compared with its sizes before it is a model."""

from collections.abc import Mapping
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.torch import load
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.atomic import join_problems
from pellucid.model import ModelConfig, Transformer

Shapes = Mapping[str, tuple[int, ...]]


def read_model(path: Path, config: ModelConfig) -> Transformer:
    """The weights in `path` as a model of these sizes, which are compared with the file before memory is taken."""
    try:
        with safe_open(path, framework="pt") as stored:
            found = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118  (it is no mapping)
            shapes = {name: tuple(each.get_shape()) for name, each in found.items()}
            kinds = {name: each.get_dtype() for name, each in found.items()}
            model = make_empty_model(config, shapes, kinds, path)
            # Copied out of the file's pages: whoever writes to the file later must not change a model in use.
            weights = {name: stored.get_tensor(name).clone() for name in found}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error!s:.200}") from None
    return fill_weights(model, weights, path)


def model_from_bytes(content: bytes, config: ModelConfig, path: Path) -> Transformer:
    """As `read_model`, from the content of a file that stood at `path`."""
    try:
        found = dict(sorted(deserialize(content)))
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error!s:.200}") from None
    shapes = {name: tuple(each["shape"]) for name, each in found.items()}
    kinds = {name: each["dtype"] for name, each in found.items()}
    model = make_empty_model(config, shapes, kinds, path)
    del found  # it is a copy, and `load` makes another
    return fill_weights(model, dict(sorted(load(content).items())), path)


def make_empty_model(config: ModelConfig, shapes: Shapes, kinds: Mapping[str, str], path: Path) -> Transformer:
    """The model that tensors of these shapes and kinds are for; ValueError if they are not for one of these sizes."""
    model = model_without_storage(config, tensors=len(shapes))
    problems = shape_differences({name: tuple(each.shape) for name, each in model.named_parameters()}, shapes)
    problems += [f"{name} is {kind}, not F32" for name, kind in kinds.items() if kind != "F32"]
    if problems:
        raise ValueError(f"{path} and config.json beside it do not describe the same model: {join_problems(problems)}")
    return model


def fill_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> Transformer:
    """The model with its weights, in evaluation mode."""
    refuse_non_finite(weights, str(path))
    for name, weight in weights.items():
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(weight))
    return model.eval()


def shape_differences(wanted: Shapes, found: Shapes) -> list[str]:
    """A sentence for each way in which stored tensors are not the parameters that were expected."""
    counts = [sum(map(prod, shapes.values())) for shapes in (wanted, found)]
    return [
        *([f"{counts[0]:,} parameters expected, {counts[1]:,} stored"] if counts[0] != counts[1] else []),
        *(f"{name} is missing" for name in wanted if name not in found),
        *(f"{name!r:.60} is unknown" for name in found if name not in wanted),
        *(f"{n} is {found[n]}, expected {shape}" for n, shape in wanted.items() if found.get(n, shape) != shape),
    ]


def model_without_storage(config: ModelConfig, tensors: int) -> Transformer:
    """A model whose parameters have a shape and no storage; nothing is drawn, so no generator moves."""
    layers = config.encoder_layers + config.decoder_layers
    if layers > tensors:
        raise ValueError(f"{layers:,} layers expected, {tensors:,} tensors stored")
    try:
        with _ParametersWithoutStorage():
            return Transformer(config)
    except (RuntimeError, OverflowError, TypeError):
        raise ValueError(f"no machine holds a model of these sizes: {config}") from None


class _ParametersWithoutStorage(TorchFunctionMode):
    # As torch.device("meta"), but for parameters only: tables of sines are computed as ever, and it takes no second.

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.empty:
            return func(*args, **{**(kwargs or {}), "device": "meta"})
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def refuse_non_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """ValueError for weights that are infinite or no numbers."""
    broken = [name for name, weight in weights.items() if not torch.isfinite(weight).all()]
    if broken:
        raise ValueError(f"{where} has weights that are infinite or not a number, in {join_problems(broken)}")
