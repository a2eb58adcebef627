"""Weights of CTranslate2's Transformers: the names of ours among its variables, their sizes, and what does not fit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isclose

import torch
from torch import Tensor

from pellucid.interop.ctranslate2_file import CTranslate2File, StoredTensor
from pellucid.interop.ctranslate2_vocabulary import PieceOrder
from pellucid.interop.marian_weights import IMPOSSIBLE_LOGIT, residual_dimensions, residual_order
from pellucid.model import ModelConfig, Transformer
from pellucid.model.config import Activation, Positions, Tie
from pellucid.model.positions import sinusoids
from pellucid.store.atomic import join_problems
from pellucid.store.weights import model_without_storage, refuse_non_finite, set_weights

_SIDES = ("encoder", "decoder")
_SOURCE, _TARGET, _OUTPUT = (
    "encoder/embeddings_0/weight",
    "decoder/embeddings/weight",
    "decoder/projection/weight",
)
_OUTPUT_BIAS = "decoder/projection/bias"
_POSITIONS = {
    "source_positions.table": "encoder/position_encodings/encodings",
    "target_positions.table": "decoder/position_encodings/encodings",
}
_ROTATION = "decoder/layer_0/self_attention/rotary_dim"
# By the numbers that CTranslate2 gives them, and whether the network is gated.
_ACTIVATIONS: dict[tuple[int, bool], Activation] = {
    (0, False): "relu",
    (2, False): "silu",
    (2, True): "swiglu",
    (3, False): "gelu",
}

# What embeddings are multiplied by, as a number, or as a byte that is 1 for sqrt(d_model).
_EMBEDDING_SCALES = ("scale_embeddings", "multiply_by_sqrt_depth")
# Variables of one number that must have this value where there
# are any, by the end of their name, and why.
_FIXED_NUMBERS = {
    "alibi": (0, "no distances are added to the scores here"),
    "multi_query_attention": (0, "each head has keys and values of its own here"),
    "rotary_interleave": (1, "the two numbers that a position turns stand side by side here"),
    "rotary_base": (10_000, "it is fixed here"),
}
# Variables of one number that are read elsewhere, or do not change a translation.
_OTHER_NUMBERS = {
    *_EMBEDDING_SCALES,
    "num_heads",
    "pre_norm",
    "activation",
    "rotary_dim",
    "num_heads_kv",
    "head_dim",
    "start_from_zero_embedding",
    "with_source_bos",
    "with_source_eos",
    "with_target_bos",
    "user_decoder_start_tokens",
    "alibi_use_positive_positions",
    "scale_alibi",
    "alignment_layer",
    "alignment_heads",
    "embeddings_merge",
    "original_max_position_embeddings",
    "max_position_embeddings",
}
# Numbers that encoder and decoder must agree on, and what CTranslate2 takes where there are none.
_CHOICES = {"num_heads": None, "pre_norm": 1.0, "activation": 0.0}
# Until revision 5 of the specification these stood once for both.
_ONCE_SHARED = (*_CHOICES, "embeddings_merge", "alignment_layer", "alignment_heads")


def fill_from_ctranslate2(
    stored: CTranslate2File, source: PieceOrder, target: PieceOrder
) -> Transformer:
    """Make one of our models from the variables of a file; ValueError, naming every problem, where it is another model.

    Where positions are stored as all sines and then all cosines, the numbers of the residual stream
    are put in another order, which changes no logit.
    """
    stored = _use_newer_names(stored)
    config = _read_model_config(stored, source, target)
    names = dict(_variable_names(config))
    sizes = {
        "source_embedding.weight": source,
        "target_embedding.weight": target,
        "output_embedding.weight": target,
    }
    tensors = len(stored.variables)

    _refuse_other_shapes(stored, model_without_storage(config, tensors), names, sizes)

    numbers = {name: _read_parts(stored, parts) for name, parts in names.items()}
    tables = {}
    for ours, name in _POSITIONS.items():
        if name in stored.variables:
            tables[ours] = stored.read_floats(name)
    refuse_non_finite(numbers | tables, str(stored.path))

    for name, vocabulary in sizes.items():
        if name in numbers:
            row_of_zeros = torch.zeros(1, config.d_model)
            numbers[name] = torch.cat([numbers[name], row_of_zeros])[vocabulary.rows]

    if config.output_bias:
        bias = torch.zeros(target.stored)
        if _OUTPUT_BIAS in stored.variables:
            bias = stored.read_floats(_OUTPUT_BIAS)
        bias = torch.cat([bias, torch.zeros(1)])[target.rows]
        # What is made here is no piece of theirs: with a probability of 0 it leaves all others as
        # they are.
        bias[target.made] = IMPOSSIBLE_LOGIT
        numbers["output_bias"] = bias

    if config.positions != "rotary":
        positions, halves = _recognize_positions(stored, tables)
        config = replace(config, positions=positions)
        if positions == "learned":
            numbers |= {name: table[: config.max_positions] for name, table in tables.items()}
        if halves:
            order = residual_order(config.d_model)
            for name, dimension in residual_dimensions(config).items():
                numbers[name] = numbers[name].index_select(dimension, order)

    contiguous = {name: whole.contiguous() for name, whole in numbers.items()}
    return set_weights(model_without_storage(config, tensors), contiguous)


def _use_newer_names(stored: CTranslate2File) -> CTranslate2File:
    """Return a file with the names of today for what older versions of CTranslate2 called otherwise."""
    variables = dict(stored.variables)
    for leaf in ("weight", "weight_scale", "multiply_by_sqrt_depth"):
        older = f"encoder/embeddings/{leaf}"
        if older in variables:
            variables.setdefault(f"encoder/embeddings_0/{leaf}", variables.pop(older))

    for name in _ONCE_SHARED:
        if name in variables:
            number = variables.pop(name)
            for side in _SIDES:
                variables.setdefault(f"{side}/{name}", number)
    return replace(stored, variables=variables)


def _read_model_config(
    stored: CTranslate2File, source: PieceOrder, target: PieceOrder
) -> ModelConfig:
    """Read the sizes and choices of a model from the shapes and numbers of its variables."""
    path, variables = stored.path, stored.variables
    if stored.kind != "TransformerSpec":
        raise ValueError(
            f"{path} is a {stored.kind!r:.60} of CTranslate2; only translation Transformers are "
            "imported"
        )

    inner = [f"{side}/layer_0/ffn/linear_0/weight" for side in _SIDES]
    matrices = (_SOURCE, _TARGET, _OUTPUT, *inner)
    problems = []
    for name in matrices:
        if name not in variables or len(variables[name].shape) != 2:
            problems.append(f"{name} is missing")
    if problems:
        raise ValueError(f"{path} cannot be imported: {join_problems(problems)}")

    d_model, d_ff = variables[_TARGET].shape[1], variables[inner[0]].shape[0]

    problems = _list_odd_numbers(stored, d_model)
    choices: dict[str, float] = {}
    for name, default in _CHOICES.items():
        values = [stored.read_number(f"{side}/{name}") for side in _SIDES]
        values = [default if value is None else value for value in values]
        if values[0] is None or values[0] != values[1]:
            problems.append(f"{name} is {values[0]} in the encoder and {values[1]} in the decoder")
        else:
            choices[name] = values[0]

    gated = "encoder/layer_0/ffn/linear_0_noact/weight" in variables
    activation = _ACTIVATIONS.get((int(choices.get("activation", 0)), gated))
    if activation is None:
        problems.append(
            f"activation has the number {choices['activation']:.0f}{' in a gated network' * gated}"
        )

    has_bias_in_norms = "decoder/layer_0/ffn/layer_norm/beta" in variables
    if not has_bias_in_norms and not choices.get("pre_norm"):
        problems.append("RMSNorm stands after each sublayer; here it stands before them")

    tables = [variables[name] for name in _POSITIONS.values() if name in variables]
    is_rotary = _ROTATION in variables
    if is_rotary:
        tables = []
    elif len(tables) < 2 or any(table.shape[1:] != (d_model,) for table in tables):
        problems.append(
            "it has no table of positions for encoder and decoder, whose positions may be relative"
        )

    if problems:
        raise ValueError(f"{path} cannot be imported: {join_problems(problems)}")

    try:
        config = ModelConfig(
            len(source.names),
            len(target.names),
            d_model=d_model,
            d_ff=d_ff,
            heads=int(choices["num_heads"]),
            encoder_layers=_count_layers(variables, "encoder"),
            decoder_layers=_count_layers(variables, "decoder"),
            norm="rms" if not has_bias_in_norms else "pre" if choices["pre_norm"] else "post",
            activation=activation or "relu",
            tie=_tied_matrices(variables, source == target),
            positions="rotary" if is_rotary else "none",  # until the tables are read
            output_bias=_OUTPUT_BIAS in variables or bool(target.made),
            **({"max_positions": min(table.shape[0] for table in tables)} if tables else {}),
        )
    except ValueError as error:
        raise ValueError(f"{path} cannot be imported: {error}") from None

    if problems := _list_head_problems(stored, config):
        raise ValueError(f"{path} cannot be imported: {join_problems(problems)}")
    return config


def _list_odd_numbers(stored: CTranslate2File, d_model: int) -> list[str]:
    """Return a sentence for each number that asks for a computation our model does not have."""
    problems = []
    for name, variable in stored.variables.items():
        last = name.rpartition("/")[2]
        if last in _EMBEDDING_SCALES:
            value = stored.read_number(name)
            expected = 1 if variable.dtype == torch.int8 else d_model**0.5
            if not isclose(value or 0.0, expected, rel_tol=1e-3):  # it may be stored in bfloat16
                problems.append(
                    f"{name} is {value}, and embeddings are multiplied by sqrt(d_model) here"
                )
        elif last in _FIXED_NUMBERS and not variable.shape:
            expected, reason = _FIXED_NUMBERS[last]
            if (value := stored.read_number(name)) != expected:
                problems.append(f"{name} is {value}, it must be {expected}: {reason}")
    return problems


def _list_head_problems(stored: CTranslate2File, config: ModelConfig) -> list[str]:
    """Return a sentence for each attention whose heads are not all as wide as d_model / heads."""
    expected = {
        "num_heads_kv": (config.heads,),
        "head_dim": (config.head_width,),
        "rotary_dim": (0, config.head_width),
    }
    problems = []
    for name, variable in stored.variables.items():
        allowed = expected.get(name.rpartition("/")[2])
        if allowed and not variable.shape and (value := stored.read_number(name)) not in allowed:
            problems.append(f"{name} is {value}, expected {allowed[-1]}")
    return problems


def _count_layers(variables: Mapping[str, StoredTensor], side: str) -> int:
    count = 0
    while f"{side}/layer_{count}/ffn/linear_0/weight" in variables:
        count += 1
    return count


def _tied_matrices(variables: Mapping[str, StoredTensor], same_pieces: bool) -> Tie:
    """Return which of the embeddings and the output matrix are one matrix: they lie in one place of the file."""
    if variables[_TARGET] != variables[_OUTPUT]:
        return "none"
    return "all" if same_pieces and variables[_SOURCE] == variables[_TARGET] else "decoder"


def _variable_names(config: ModelConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield each of our parameters with the variables that make it up, one below the other."""
    yield "source_embedding.weight", [_SOURCE]
    if config.tie != "all":
        yield "target_embedding.weight", [_TARGET]
    if config.tie == "none":
        yield "output_embedding.weight", [_OUTPUT]
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(count):
            ours, theirs = f"{side}.{number}", f"{side}/layer_{number}"
            yield from _layer_names(config, ours, theirs, has_cross=side == "decoder")
        if config.norm_first:
            yield from _norm_names(config, f"{side}_norm", f"{side}/layer_norm")


def _layer_names(
    config: ModelConfig, ours: str, theirs: str, has_cross: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of one layer: its attentions, its feed-forward network, and the norm of each."""
    # Queries, keys and values are one matrix; keys and values of the memory are apart from the
    # queries.
    attentions = [("self", "self_attention", ["linear_0"], "linear_1")]
    if has_cross:
        attentions.append(("cross", "attention", ["linear_0", "linear_1"], "linear_2"))
    for name, their_name, projections, output in attentions:
        attention = f"{theirs}/{their_name}"
        inputs = [f"{attention}/{part}" for part in projections]
        yield from _linear_names(f"{ours}.{name}.qkv", inputs)
        yield from _linear_names(f"{ours}.{name}.output", [f"{attention}/{output}"])
        yield from _norm_names(config, f"{ours}.{name}_residual.norm", f"{attention}/layer_norm")

    # Of a gated network the half that goes through the activation comes first.
    inner = ["linear_0", "linear_0_noact"] if config.activation == "swiglu" else ["linear_0"]
    yield from _linear_names(f"{ours}.ffn.inner", [f"{theirs}/ffn/{part}" for part in inner])
    yield from _linear_names(f"{ours}.ffn.outer", [f"{theirs}/ffn/linear_1"])
    yield from _norm_names(config, f"{ours}.ffn_residual.norm", f"{theirs}/ffn/layer_norm")


def _linear_names(ours: str, theirs: list[str]) -> Iterator[tuple[str, list[str]]]:
    for leaf in ("weight", "bias"):
        yield f"{ours}.{leaf}", [f"{name}/{leaf}" for name in theirs]


def _norm_names(config: ModelConfig, ours: str, theirs: str) -> Iterator[tuple[str, list[str]]]:
    yield f"{ours}.weight", [f"{theirs}/gamma"]
    if config.norm != "rms":
        yield f"{ours}.bias", [f"{theirs}/beta"]


def _refuse_other_shapes(
    stored: CTranslate2File,
    model: Transformer,
    names: Mapping[str, list[str]],
    sizes: Mapping[str, PieceOrder],
) -> None:
    """Raise ValueError, naming every problem, unless the file has these variables in these shapes, and no other."""
    problems, known = [], {_SOURCE, _TARGET, _OUTPUT, _OUTPUT_BIAS, *_POSITIONS.values()}
    for ours, parts in names.items():
        known |= {*parts}
        expected = tuple(model.get_parameter(ours).shape)
        if ours in sizes:
            expected = (sizes[ours].stored, *expected[1:])
        absent = [part for part in parts if part not in stored.variables]
        # A matrix may come without a bias, which is then one of zeros.
        if absent and not (ours.endswith(".bias") and absent == parts and "norm" not in ours):
            problems += [f"{part} is missing" for part in absent]
        elif not absent:
            shapes = [stored.variables[part].shape for part in parts]
            whole = (sum(shape[0] if shape else 0 for shape in shapes), *shapes[0][1:])
            if whole != expected or any(shape[1:] != shapes[0][1:] for shape in shapes):
                problems.append(f"{' and '.join(parts)}: {whole}, expected {expected}")
    bias = stored.variables.get(_OUTPUT_BIAS)
    if bias is not None and bias.shape != (sizes["output_embedding.weight"].stored,):
        problems.append(f"{_OUTPUT_BIAS} is {bias.shape}")

    read_elsewhere = {*_FIXED_NUMBERS, *_OTHER_NUMBERS}
    for name, variable in stored.variables.items():
        weight = name.removesuffix("_scale")
        if name != weight and weight in known:
            # One scale for each row, or one for the matrix.
            if variable.shape not in ((), stored.variables[weight].shape[:1]):
                problems.append(f"{name} is {variable.shape}")
        elif name not in known:
            is_number = variable.shape == () and name.rpartition("/")[2] in read_elsewhere
            if not is_number:
                problems.append(f"{name!r:.80} is unknown")

    if problems:
        raise ValueError(f"{stored.path} cannot be imported: {join_problems(problems)}")


def _read_parts(stored: CTranslate2File, parts: list[str]) -> Tensor:
    """Read a parameter whose variables lie one below the other; a bias that is not there is one of zeros."""
    if parts[0] in stored.variables:
        return torch.cat([stored.read_floats(part) for part in parts])
    weights = [part.removesuffix("bias") + "weight" for part in parts]
    return torch.zeros(sum(stored.variables[weight].shape[0] for weight in weights))


def _recognize_positions(
    stored: CTranslate2File, tables: Mapping[str, Tensor]
) -> tuple[Positions, bool]:
    """Return the kind of positions, and whether they are all sines and then all cosines."""
    if not any(table.any() for table in tables.values()):
        return "none", False

    width = next(iter(tables.values())).shape[1]
    if width % 2 == 0:
        computed = sinusoids(max(len(table) for table in tables.values()), width)
        halved = computed[:, residual_order(width).argsort()]
        for halves, expected in ((False, computed), (True, halved)):
            fits = True
            for ours, name in _POSITIONS.items():
                fits = fits and _rounds_to(stored, name, expected[: len(tables[ours])])
            if fits:
                return "sinusoidal", halves
    return "learned", False


def _rounds_to(stored: CTranslate2File, name: str, expected: Tensor) -> bool:
    """Return whether a table is what is expected, in the precision in which it is stored."""
    dtype = stored.variables[name].dtype
    if not dtype.is_floating_point:
        return False
    # Other programs compute the angles in float32: an angle is off by a share
    # of it, so by more the later its position.
    tolerance = torch.finfo(dtype).eps + 4e-7 * torch.arange(len(expected))[:, None]
    return bool(((stored.read_floats(name) - expected).abs() <= tolerance).all())
