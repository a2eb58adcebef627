"""The weights of a model in a safetensors file: written, and read after a comparison of every shape with the sizes."""

from collections.abc import Mapping
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.model import ModelConfig, Transformer
from pellucid.store.atomic import join_problems

_Shapes = Mapping[str, tuple[int, ...]]


def write_model(model: Transformer, path: Path) -> None:
    """Write the weights of a model; ValueError for weights that are infinite or not a number."""
    # named_parameters() lists a matrix that several modules share once, so it is stored once.
    weights = {}
    for name, weight in model.named_parameters():
        weights[name] = weight.detach().cpu().contiguous()
    refuse_non_finite(weights, "the model to be saved")
    save_file(weights, path)


def model_from_bytes(content: bytes, config: ModelConfig, path: Path) -> Transformer:
    """Make a model of these sizes from the content of a weights file; `path` is named in errors."""

    try:
        tensors = dict(sorted(deserialize(content)))
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error!s:.200}") from None

    shapes = {name: tuple(tensor["shape"]) for name, tensor in tensors.items()}
    dtypes = {name: tensor["dtype"] for name, tensor in tensors.items()}
    model = _make_empty_model(config, shapes, dtypes, path)

    weights = {}
    for name, tensor in tensors.items():
        # Each has bytes of its own already, which its tensor keeps.
        numbers = torch.frombuffer(tensor["data"], dtype=torch.float32)
        weights[name] = numbers.reshape(shapes[name])
    return _fill_weights(model, weights, path)


def _make_empty_model(
    config: ModelConfig, shapes: _Shapes, dtypes: Mapping[str, str], path: Path
) -> Transformer:
    """Make a model without storage for tensors of these shapes and types; ValueError if the config describes others."""
    model = model_without_storage(config, tensors=len(shapes))

    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    problems = _shape_differences(expected, shapes)
    problems += [f"{name} is {dtype}, not F32" for name, dtype in dtypes.items() if dtype != "F32"]

    if problems:
        raise ValueError(
            f"{path} and config.json beside it do not describe the same model: "
            f"{join_problems(problems)}"
        )
    return model


def _fill_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> Transformer:
    """Put the weights into a model without storage, and return it in evaluation mode."""
    refuse_non_finite(weights, str(path))
    return set_weights(model, weights)


def set_weights(model: Transformer, weights: Mapping[str, Tensor]) -> Transformer:
    """Make tensors the parameters of these names in a model without storage; return it in evaluation mode."""
    for name, weight in weights.items():
        owner, _, leaf = name.rpartition(".")
        # load_state_dict would copy into storage that the parameters do not have.
        setattr(model.get_submodule(owner), leaf, nn.Parameter(weight))
    return model.eval()


def _shape_differences(expected: _Shapes, stored: _Shapes) -> list[str]:
    """Return a sentence for each way in which the stored tensors differ from the expected parameters."""
    differences = []
    needed, there = sum(map(prod, expected.values())), sum(map(prod, stored.values()))
    if needed != there:
        differences.append(f"{needed:,} parameters expected, {there:,} stored")

    differences += [f"{name} is missing" for name in expected if name not in stored]
    differences += [f"{name!r:.60} is unknown" for name in stored if name not in expected]
    for name, shape in expected.items():
        if stored.get(name, shape) != shape:
            differences.append(f"{name} is {stored[name]}, expected {shape}")
    return differences


def model_without_storage(config: ModelConfig, tensors: int) -> Transformer:
    """Make a model whose parameters have a shape but no storage; no random numbers are drawn."""
    # A layer takes milliseconds to build, and has tensors of its own: a config cannot ask for more
    # than the file holds.
    layers = config.encoder_layers + config.decoder_layers
    if layers > tensors:
        raise ValueError(f"{layers:,} layers expected, {tensors:,} tensors stored")
    try:
        with _ParametersWithoutStorage():
            return Transformer(config)
    except (RuntimeError, OverflowError, TypeError):
        raise ValueError(f"no machine holds a model of these sizes: {config}") from None


class _ParametersWithoutStorage(TorchFunctionMode):
    # Like torch.device("meta"), but for parameters only: the tables of sines are computed as usual.
    # And it does not take a second.

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.empty:
            return func(*args, **{**(kwargs or {}), "device": "meta"})

        # Initialisation: hand the tensor back as it is, so that no generator is advanced.
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def refuse_non_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """Raise ValueError for weights that are infinite or not a number."""
    broken = [name for name, weight in weights.items() if not torch.isfinite(weight).all()]
    if broken:
        raise ValueError(
            f"{where} has weights that are infinite or not a number, in {join_problems(broken)}"
        )
