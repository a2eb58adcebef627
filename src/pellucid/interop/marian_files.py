"""JSON files of Hugging Face's Marian and Pegasus models, config.json and the vocabularies, and what does not fit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from pellucid.data.tokenizer import (
    BOS,
    EOS,
    PAD,
    UNK,
    ListedPieces,
    Tokenizer,
    TokenizerConfig,
    read_pieces,
)
from pellucid.model import ModelConfig

# Numbers in the largest table of positions; a model directory may not have a larger one either. The
# table is computed, so a short config.json could ask for any amount of memory.
_LARGEST_TABLE = 2**26

_NORMS = {"marian": "post", "pegasus": "pre"}
_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
_DROPOUT_RATES = (("dropout", 0.1), ("attention_dropout", 0.0), ("activation_dropout", 0.0))
_SIZES = (
    "vocab_size",
    "d_model",
    "max_position_embeddings",
    "encoder_layers",
    "encoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_layers",
    "decoder_ffn_dim",
    "decoder_attention_heads",
)
_EQUAL_KEYS = (  # two names that must agree, and why
    ("encoder_ffn_dim", "decoder_ffn_dim", "encoder and decoder have one inner width here"),
    (
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder and decoder have one number of heads here",
    ),
    ("num_attention_heads", "encoder_attention_heads", "they are two names of one number"),
    ("num_hidden_layers", "encoder_layers", "they are two names of one number"),
    ("hidden_size", "d_model", "they are two names of one number"),
)
_FIXED_KEYS = (  # what a key must say if it is there, and why
    ("is_encoder_decoder", True, "half a model translates nothing"),
    ("normalize_embedding", False, "there is no norm after the embeddings here"),
    (
        "static_position_embeddings",
        True,
        "transformers computes sines and cosines whatever this says",
    ),
    (
        "add_bias_logits",
        False,
        "transformers has a bias whatever this says; it stands among the weights",
    ),
    ("forced_bos_token_id", None, "no piece is forced here; translate with a prefix instead"),
    ("auto_map", None, "it names code that would have to be run"),
)


def model_arguments(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of a ModelConfig that a config.json describes, and a sentence for each problem.

    The sizes of the vocabularies, whether there is a bias, and the kind
    of positions are not known from this file.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _NORMS:
        return {}, [f"model_type is {kind!r:.60}; only 'marian' and 'pegasus' can be imported"]

    problems = _number_problems(config)
    for name, expected, reason in (*_FIXED_KEYS, *_fixed_by_norm(kind)):
        if (value := config.get(name, expected)) != expected:
            problems.append(f"{name} is {value!r:.60}, it must be {expected!r}: {reason}")
    for first, second, reason in _EQUAL_KEYS:
        value, other = config.get(first), config.get(second)
        if first in config and value != other:
            problems.append(f"{first} is {value!r:.60} and {second} {other!r:.60}: {reason}")

    if config.get("scale_embedding") is not True:
        problems.append(
            "scale_embedding is not true: embeddings are multiplied by sqrt(d_model) here"
        )
    if str(activation := config.get("activation_function")) not in _ACTIVATIONS:
        problems.append(
            f"activation_function is {activation!r:.60}, the feed-forward knows "
            f"{', '.join(_ACTIVATIONS)}"
        )
    for name in ("tie_word_embeddings", "share_encoder_decoder_embeddings"):
        if not isinstance(config.get(name, True), bool):
            problems.append(f"{name} is {config[name]!r:.60}, it must be true or false")

    # Only numbers that are numbers can be multiplied.
    if problems:
        return {}, problems

    if config["max_position_embeddings"] * config["d_model"] > _LARGEST_TABLE:
        problems.append(
            f"max_position_embeddings {config['max_position_embeddings']:,} with d_model {config['d_model']:,} makes a "
            f"table of positions of more than {_LARGEST_TABLE:,} numbers"
        )
    return {
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "heads": config["encoder_attention_heads"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        **{name: float(config.get(name, default)) for name, default in _DROPOUT_RATES},
        "norm": _NORMS[kind],
        "activation": _ACTIVATIONS[str(activation)],
        "tie": _tied_matrices(config),
        "max_positions": config["max_position_embeddings"],
    }, problems


def _number_problems(config: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each size that is no size, and each rate that is no rate."""
    problems = []
    for name in _SIZES:
        value = config.get(name)
        # `type`, because True is an int for `isinstance`.
        if type(value) is not int or not 0 < value <= 2**31:
            problems.append(f"{name} is {value!r:.60}, it must be a number from 1 to {2**31:,}")

    for name, default in _DROPOUT_RATES:
        value = config.get(name, default)
        if type(value) not in (int, float) or not -inf < value < inf:
            problems.append(f"{name} is {value!r:.60}, it must be a rate from 0 to 1")
    return problems


def _fixed_by_norm(kind: str) -> list[tuple[str, bool, str]]:
    """Return the two keys of old files about the place of norms, the value each must have, and why."""
    # transformers does not read them: a file that says otherwise would be computed differently
    # there.
    pre = _NORMS[kind] == "pre"
    place = "before" if pre else "after"
    reason = (
        f"in transformers a {kind} model has its norms {place} each sublayer, whatever this says"
    )
    return [("normalize_before", pre, reason), ("add_final_layer_norm", pre, reason)]


def _tied_matrices(config: Mapping[str, Any]) -> str:
    """Return which of the embeddings and the output matrix are one matrix, as transformers 5 reads a config.json."""
    if not config.get("tie_word_embeddings", True):
        return "none"
    return "all" if _shares_vocabulary(config) else "decoder"


def _shares_vocabulary(config: Mapping[str, Any]) -> bool:
    """Return whether source and target share one vocabulary."""
    shares_embeddings = config.get("share_encoder_decoder_embeddings", True)
    return config.get("model_type") == "pegasus" or shares_embeddings


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
        problems.append(
            "activation is 'swiglu': both formats have two matrices in the feed-forward, not three"
        )
    if model.norm_first and not _has_one_vocabulary(tokenizer):
        problems.append(
            "norms stand before each sublayer, with a vocabulary for each language: a Marian model has them after, a "
            "Pegasus model has one vocabulary"
        )
    if tokenizer.lowercase:
        problems.append("the tokenizer makes text lower case, and MarianTokenizer does not")
    if not tokenizer.config.source_end:
        problems.append(
            "the model reads sources without </s> at their end, and MarianTokenizer adds it"
        )
    return problems


def _has_one_vocabulary(tokenizer: Tokenizer) -> bool:
    """Return whether every piece has the same id on both sides."""
    return tokenizer.source_names == tokenizer.target_names


def transformers_config(
    model: ModelConfig, source: Mapping[str, int], target: Mapping[str, int]
) -> dict[str, Any]:
    """Make the config.json of a Pellucid model; `source` and `target` have the exported ids of the pieces."""
    kind = "pegasus" if model.norm == "pre" else "marian"

    sides = {
        "encoder_layers": model.encoder_layers,
        "encoder_ffn_dim": model.d_ff,
        "encoder_attention_heads": model.heads,
        "decoder_layers": model.decoder_layers,
        "decoder_ffn_dim": model.d_ff,
        "decoder_attention_heads": model.heads,
    }
    vocabularies = {
        "decoder_vocab_size": len(target),
        "share_encoder_decoder_embeddings": model.tie == "all",
    }
    return {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": len(source),
        **(vocabularies if kind == "marian" else {}),
        "tie_word_embeddings": model.tie != "none" if kind == "marian" else model.tie == "all",
        "d_model": model.d_model,
        **sides,
        "num_hidden_layers": model.encoder_layers,
        "max_position_embeddings": model.max_positions,
        **{name: getattr(model, name) for name, _ in _DROPOUT_RATES},
        "activation_function": "swish" if model.activation == "silu" else model.activation,
        "scale_embedding": True,
        **({"static_position_embeddings": True} if model.positions == "sinusoidal" else {}),
        "normalize_embedding": False,
        **{name: value for name, value, _ in _fixed_by_norm(kind)},
        "pad_token_id": source["<pad>"],
        **({"bos_token_id": target["<s>"]} if "<s>" in target else {}),
        "decoder_start_token_id": target.get("<s>", target["<pad>"]),
        "eos_token_id": target["</s>"],
        "forced_eos_token_id": None,
        "dtype": "float32",
        "use_cache": True,
    }


_SPECIAL_TOKENS = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
START_TOKEN = "<s>"
SENTENCEPIECE_FILES = ("source.spm", "target.spm")


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of one language in our order, and the id each of them has in the Marian model.

    If `copied`, our BOS is a copy of one of their pieces, usually their
    padding; that piece then has two ids here.
    """

    names: list[str]
    order: list[int]
    copied: bool

    @property
    def rows(self) -> list[int]:
        """Our id of each of their pieces: the inverse of `order`."""
        ours = {}
        for index, theirs in enumerate(self.order):
            # A copy does not count: the piece has an id of its own.
            if not (self.copied and index == BOS):
                ours[theirs] = index
        return [ours[i] for i in range(len(ours))]


def renumber_pieces(ids: Mapping[str, int], start: int) -> Vocabulary:
    """Put their pieces into our order: padding, unknown, start and end first, the others as they come.

    A start token with no other use moves to the front; one that is
    also padding, or a word, is copied there.

    >>> renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<pad>": 3}, start=3)
    Vocabulary(names=['<pad>', '<unk>', '<s>', '</s>', 'cat'], order=[3, 1, 3, 0, 2], copied=True)
    """
    names = sorted(ids, key=lambda name: ids[name])
    pad, unknown, end = (ids[name] for name in _SPECIAL_TOKENS.values())
    copied = names[start] != START_TOKEN
    front = [pad, unknown, start, end]
    moved = [pad, unknown, end] if copied else front
    order = front + [i for i in range(len(names)) if i not in moved]

    # Pieces are told apart by their text, so the copy needs one that no other piece has.
    start_name = START_TOKEN
    while copied and start_name in ids:
        start_name = f"<{start_name}>"
    ordered = [names[i] for i in order]
    ordered[BOS] = start_name
    return Vocabulary(ordered, order, copied)


def read_vocabularies(files: Mapping[str, Any]) -> tuple[list[Vocabulary], list[str]]:
    """Return the vocabularies of the source and of the target, and a sentence for each problem."""
    config, settings = files["config.json"], files.get("tokenizer_config.json", {})
    separate = settings.get("separate_vocabs", False)
    target = "target_vocab.json" if separate else "vocab.json"
    needed = dict.fromkeys(("vocab.json", target))
    problems = [f"{name} is missing" for name in needed if name not in files]

    problems += _tokenizer_rule_problems(files)
    sizes = [config.get("vocab_size")] * 2
    if config.get("model_type") == "marian":
        sizes[1] = config.get("decoder_vocab_size") or sizes[0]  # the key may be there and null

    for name, size, key in (
        ("vocab.json", sizes[0], "pad_token_id"),
        (target, sizes[1], "eos_token_id"),
    ):
        problems += vocabulary_problems(name, files.get(name, {}), size, config, key)
    if sizes[0] != sizes[1] and _shares_vocabulary(config):
        problems.append(
            f"decoder_vocab_size is {sizes[1]!r:.60}, vocab_size {sizes[0]!r:.60}, and both sides "
            "share pieces"
        )

    start = config.get("decoder_start_token_id")
    if type(start) is not int or not 0 <= start < len(files.get(target, {})):
        problems.append(f"decoder_start_token_id is {start!r:.60}, which is no piece")
    if problems:
        return [], list(dict.fromkeys(problems))

    target_vocabulary = renumber_pieces(files[target], start)
    source_vocabulary = target_vocabulary
    if separate:
        ids = files["vocab.json"]
        # No source begins with BOS: there it may be a copy of anything.
        source_start = ids.get(START_TOKEN, config["pad_token_id"])
        source_vocabulary = renumber_pieces(ids, source_start)

    if _tied_matrices(config) == "all" and source_vocabulary.order != target_vocabulary.order:
        problems.append(
            "vocab.json and target_vocab.json number the special pieces differently, but share one "
            "matrix"
        )
    return [source_vocabulary, target_vocabulary], problems


def vocabulary_problems(
    name: str, ids: Mapping[str, Any], size: Any, config: Mapping[str, Any], key: str
) -> list[str]:
    """Return why a vocab.json cannot be the vocabulary of a model with `size` pieces."""
    are_numbers = all(type(i) is int for i in ids.values())
    if not are_numbers or sorted(ids.values()) != list(range(len(ids))):
        return [f"{name} does not give each piece a number of its own, from 0 to {len(ids) - 1:,}"]
    # JSON can spell a NUL, and half of a surrogate pair.
    if any(re.search("[\0\ud800-\udfff]", piece) for piece in ids):
        return [f"{name} has a piece that is not valid text"]

    problems = [f"{name} has no {piece}" for piece in _SPECIAL_TOKENS.values() if piece not in ids]
    if len(ids) != size:
        problems.append(f"{name} has {len(ids):,} pieces, the model {size!r:.60}")

    piece = _SPECIAL_TOKENS[key.removesuffix("_id")]
    if ids.get(piece) != config.get(key):
        problems.append(
            f"{name} gives {piece} the number {ids.get(piece)}, config.json says "
            f"{config.get(key)!r:.60}"
        )
    return problems


def _tokenizer_rule_problems(files: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each rule of a tokenizer that a SentencePiece model and a list of pieces cannot hold."""
    settings = files.get("tokenizer_config.json", {})
    problems = []
    if (forced := files.get("generation_config.json", {}).get("forced_bos_token_id")) is not None:
        problems.append(
            f"generation_config.json forces the first piece to be {forced!r:.60}: no piece is "
            "forced here"
        )
    if (kind := settings.get("tokenizer_class", "MarianTokenizer")) != "MarianTokenizer":
        problems.append(f"the tokenizer is a {kind!r:.60}, only MarianTokenizer is read")
    if settings.get("sp_model_kwargs"):
        problems.append(
            "sp_model_kwargs of tokenizer_config.json is not empty: pieces are cut one way here"
        )
    if not isinstance(settings.get("separate_vocabs", False), bool):
        problems.append("separate_vocabs of tokenizer_config.json is neither true nor false")
    for file_name in ("tokenizer_config.json", "special_tokens_map.json"):
        for key, usual in _SPECIAL_TOKENS.items():
            token = _token_content(files.get(file_name, {}).get(key, usual))
            if token != usual:
                problems.append(f"{file_name}: {key} is {token!r:.60}, only {usual!r} is read")

    added = [
        *_list_values(settings.get("added_tokens_decoder")),
        *files.get("added_tokens.json", {}),
    ]

    # Versions of transformers differ in the name of the key.
    for file_name in ("tokenizer_config.json", "special_tokens_map.json"):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            added += _list_values(files.get(file_name, {}).get(key))

    extra = sorted({str(_token_content(token)) for token in added} - set(_SPECIAL_TOKENS.values()))
    if extra:
        problems.append(
            "the tokenizer has pieces that SentencePiece does not produce: "
            f"{', '.join(extra[:8])!r:.200}"
        )
    return problems


def _token_content(token: Any) -> Any:
    """Return the text of a token, which may be written as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


def _list_values(value: Any) -> list[Any]:
    """Return the values of a list or an object; none for anything else."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def load_marian_tokenizer(directory: Path, source: Vocabulary, target: Vocabulary) -> Tokenizer:
    """Load the two SentencePiece models of a directory, with their pieces in our order."""
    models = [read_pieces(directory / name)[0] for name in SENTENCEPIECE_FILES]
    same_pieces = models[0].serialized_model_proto() == models[1].serialized_model_proto()
    joint = same_pieces and source == target
    config = TokenizerConfig("marian", max(len(source.names), len(target.names)), joint)
    reading, writing = ListedPieces(models[0], source.names), ListedPieces(models[1], target.names)
    return Tokenizer(reading, writing, config)


def tokenizer_files(model: ModelConfig, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """Make the files with which MarianTokenizer cuts a text into the same pieces as our tokenizer.

    It differs for text with U+2581, U+2585 or U+FDD0, which ours spells in another way, and for a
    line that begins with >>...<<, which Marian takes for the name of a language.
    """
    separate = not _has_one_vocabulary(tokenizer)
    source, target = tokenizer.source_names, tokenizer.target_names
    if not separate:
        # Marian's order: the end and the unknown piece first, and last padding, which
        # starts a translation too. Two vocabularies keep our ids, because
        # transformers has one id of padding for both.
        source = target = (source[EOS], source[UNK], *source[EOS + 1 :], source[PAD])
    special_pieces = tokenizer.target_pieces([PAD, UNK, EOS])
    special_tokens = dict(zip(_SPECIAL_TOKENS, special_pieces, strict=True))

    vocabularies = {"vocab.json": {name: i for i, name in enumerate(source)}}
    if separate:
        vocabularies["target_vocab.json"] = {name: i for i, name in enumerate(target)}
    return {
        **vocabularies,
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": model.max_positions,
            "separate_vocabs": separate,
            "source_lang": None,
            "target_lang": None,
            "split_special_tokens": True,  # "</s>" in a text is text
            "clean_up_tokenization_spaces": False,
            **special_tokens,
        },
        "special_tokens_map.json": special_tokens,
    }
