"""Reads and writes config.json of Hugging Face's Marian and Pegasus models, and explains what does not fit."""

from collections.abc import Mapping
from math import inf
from typing import Any

from pellucid.data.tokenizer import Tokenizer
from pellucid.model import ModelConfig

# The table is computed, so a short config.json could ask for any amount of memory.
LARGEST_TABLE = 2**26
"""Numbers in the largest table of positions; a model directory may not have a larger one either."""

NORMS = {"marian": "post", "pegasus": "pre"}
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
DROPOUT_RATES = (("dropout", 0.1), ("attention_dropout", 0.0), ("activation_dropout", 0.0))
SIZES = (
    "vocab_size",
    "d_model",
    "max_position_embeddings",
    *(f"{side}_{size}" for side in ("encoder", "decoder") for size in ("layers", "ffn_dim", "attention_heads")),
)
EQUAL_KEYS = (  # two names that must agree, and why
    ("encoder_ffn_dim", "decoder_ffn_dim", "encoder and decoder have one inner width here"),
    ("encoder_attention_heads", "decoder_attention_heads", "encoder and decoder have one number of heads here"),
    ("num_attention_heads", "encoder_attention_heads", "they are two names of one number"),
    ("num_hidden_layers", "encoder_layers", "they are two names of one number"),
    ("hidden_size", "d_model", "they are two names of one number"),
)
FIXED_KEYS = (  # what a key must say if it is there, and why
    ("is_encoder_decoder", True, "half a model translates nothing"),
    ("normalize_embedding", False, "there is no norm after the embeddings here"),
    ("static_position_embeddings", True, "transformers computes sines and cosines whatever this says"),
    ("add_bias_logits", False, "transformers has a bias whatever this says; it stands among the weights"),
    ("forced_bos_token_id", None, "no piece is forced here; translate with a prefix instead"),
    ("auto_map", None, "it names code that would have to be run"),
)


def model_arguments(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of a ModelConfig that a config.json describes, and a sentence for each problem.

    The sizes of the vocabularies, whether there is a bias, and the kind of positions are not known from this file.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in NORMS:
        return {}, [f"model_type is {kind!r:.60}; only 'marian' and 'pegasus' can be imported"]
    problems = [
        f"{name} is {value!r:.60}, it must be a number from 1 to {2**31:,}"
        for name in SIZES
        # `type`, because True is an int for `isinstance`.
        if type(value := config.get(name)) is not int or not 0 < value <= 2**31
    ]
    problems += [
        f"{name} is {value!r:.60}, it must be {expected!r}: {reason}"
        for name, expected, reason in (*FIXED_KEYS, *fixed_by_norm(kind))
        if (value := config.get(name, expected)) != expected
    ]
    problems += [
        f"{first} is {config[first]!r:.60} and {second} {config.get(second)!r:.60}: {reason}"
        for first, second, reason in EQUAL_KEYS
        if first in config and config[first] != config.get(second)
    ]
    problems += [
        f"{name} is {value!r:.60}, it must be a rate from 0 to 1"
        for name, default in DROPOUT_RATES
        if type(value := config.get(name, default)) not in (int, float) or not -inf < value < inf
    ]
    if config.get("scale_embedding") is not True:
        problems.append("scale_embedding is not true: embeddings are multiplied by sqrt(d_model) here")
    if str(activation := config.get("activation_function")) not in ACTIVATIONS:
        problems.append(f"activation_function is {activation!r:.60}, the feed-forward knows {', '.join(ACTIVATIONS)}")
    problems += [
        f"{name} is {config[name]!r:.60}, it must be true or false"
        for name in ("tie_word_embeddings", "share_encoder_decoder_embeddings")
        if not isinstance(config.get(name, True), bool)
    ]
    # Only numbers that are numbers can be multiplied.
    if problems:
        return {}, problems
    if config["max_position_embeddings"] * config["d_model"] > LARGEST_TABLE:
        problems.append(
            f"max_position_embeddings {config['max_position_embeddings']:,} with d_model {config['d_model']:,} makes a "
            f"table of positions of more than {LARGEST_TABLE:,} numbers"
        )
    return {
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "heads": config["encoder_attention_heads"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        **{name: float(config.get(name, default)) for name, default in DROPOUT_RATES},
        "norm": NORMS[kind],
        "activation": ACTIVATIONS[str(activation)],
        "tie": tied_matrices(config),
        "max_positions": config["max_position_embeddings"],
    }, problems


def fixed_by_norm(kind: str) -> list[tuple[str, bool, str]]:
    """Return the two keys of old files about the place of norms, the value each must have, and why."""
    # transformers does not read them: a file that says otherwise would be computed differently there.
    pre = NORMS[kind] == "pre"
    reason = (
        f"in transformers a {kind} model has its norms {'before' if pre else 'after'} each sublayer, whatever this says"
    )
    return [("normalize_before", pre, reason), ("add_final_layer_norm", pre, reason)]


def tied_matrices(config: Mapping[str, Any]) -> str:
    """Return which of the embeddings and the output matrix are one matrix, as transformers 5 reads a config.json."""
    if not config.get("tie_word_embeddings", True):
        return "none"
    return "all" if shares_vocabulary(config) else "decoder"


def shares_vocabulary(config: Mapping[str, Any]) -> bool:
    """Return whether source and target share one vocabulary."""
    return config.get("model_type") == "pegasus" or config.get("share_encoder_decoder_embeddings", True)


def explain_unfit(model: ModelConfig, tokenizer: Tokenizer) -> list[str]:
    """Return a sentence for each reason why neither Marian nor Pegasus fits a model; none if one of them does."""
    problems = []
    if model.d_model % 2:
        problems.append(f"d_model {model.d_model} is odd: both formats pair sines with cosines")
    if model.positions == "rotary":
        problems.append("positions are rotary: both formats add them to the embeddings")
    if model.norm == "rms":
        problems.append("norms are RMSNorm: both formats have LayerNorm")
    if model.positions in ("learned", "none") and model.norm == "post":
        problems.append(
            f"positions are {model.positions!r} with norms after each sublayer: a Marian model has sines and cosines, "
            "and transformers drops any other table when it saves one"
        )
    if model.activation == "swiglu":
        problems.append("activation is 'swiglu': both formats have two matrices in the feed-forward, not three")
    if model.norm_first and not has_one_vocabulary(tokenizer):
        problems.append(
            "norms stand before each sublayer, with a vocabulary for each language: a Marian model has them after, a "
            "Pegasus model has one vocabulary"
        )
    if tokenizer.lowercase:
        problems.append("the tokenizer makes text lower case, and MarianTokenizer does not")
    return problems


def has_one_vocabulary(tokenizer: Tokenizer) -> bool:
    """Return whether every piece has the same id on both sides."""
    return tokenizer.source_names == tokenizer.target_names


def transformers_config(model: ModelConfig, source: Mapping[str, int], target: Mapping[str, int]) -> dict[str, Any]:
    """Make the config.json of a Pellucid model; `source` and `target` have the exported ids of the pieces."""
    kind = "pegasus" if model.norm == "pre" else "marian"
    sides = {
        f"{side}_{name}": value
        for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers))
        for name, value in (("layers", layers), ("ffn_dim", model.d_ff), ("attention_heads", model.heads))
    }
    vocabularies = {
        "decoder_vocab_size": len(target),
        "share_encoder_decoder_embeddings": model.tie == "all",
    }
    return {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": len(source),
        **(vocabularies if kind == "marian" else {}),
        "tie_word_embeddings": model.tie != "none" if kind == "marian" else model.tie == "all",
        "d_model": model.d_model,
        **sides,
        "num_hidden_layers": model.encoder_layers,
        "max_position_embeddings": model.max_positions,
        **{name: getattr(model, name) for name, _ in DROPOUT_RATES},
        "activation_function": "swish" if model.activation == "silu" else model.activation,
        "scale_embedding": True,
        **({"static_position_embeddings": True} if model.positions == "sinusoidal" else {}),
        "normalize_embedding": False,
        **{name: value for name, value, _ in fixed_by_norm(kind)},
        "pad_token_id": source["<pad>"],
        **({"bos_token_id": target["<s>"]} if "<s>" in target else {}),
        "decoder_start_token_id": target.get("<s>", target["<pad>"]),
        "eos_token_id": target["</s>"],
        "forced_eos_token_id": None,
        "dtype": "float32",
        "use_cache": True,
    }
