"""The model's configuration: numbers and choices that define a model, and the four named sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

# The token id that fills short rows, in every vocabulary; no query may attend to a position that
# holds it.
PADDING = 0

Norm = Literal["pre", "post", "rms"]
Positions = Literal["sinusoidal", "learned", "rotary", "none"]
Activation = Literal["relu", "gelu", "silu", "swiglu"]
Tie = Literal["all", "decoder", "none"]

# base and big are the paper's models (table 3). A read-only mapping, because every caller shares
# it.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": {"d_model": 128, "d_ff": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
        "small": {"d_model": 256, "d_ff": 1024, "heads": 4, "encoder_layers": 3, "decoder_layers": 3},
        "base": {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
        "big": {"d_model": 1024, "d_ff": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
    }
)


@dataclass(frozen=True)
class ModelConfig:
    """All numbers and choices that decide the shapes and formulas of a `Transformer`.

    Raises ValueError, naming every problem at once, for values that do not define a model.
    """

    source_vocabulary: Annotated[int, "pieces of the source vocabulary, including the four special tokens"]
    target_vocabulary: Annotated[int, "pieces of the target vocabulary, including the four special tokens"]
    d_model: Annotated[int, "width of every residual stream (paper: 512)"]
    d_ff: Annotated[int, "inner width of the feed-forward (paper: 2048)"]
    heads: Annotated[int, "attention heads; each is d_model / heads wide (paper: 8)"]
    encoder_layers: Annotated[int, "layers of the encoder (paper: 6)"]
    decoder_layers: Annotated[int, "layers of the decoder (paper: 6)"]
    dropout: Annotated[float, "share dropped from embeddings and from each sublayer's output"] = 0.1
    attention_dropout: Annotated[float, "share dropped from attention patterns"] = 0.0
    activation_dropout: Annotated[float, "share dropped inside the feed-forward"] = 0.0
    norm: Annotated[
        Norm, "LayerNorm before each sublayer, LayerNorm after its sum (paper: post), or RMSNorm before each sublayer"
    ] = "pre"
    positions: Annotated[Positions, "how the order of the pieces enters the model (paper: sinusoidal)"] = "sinusoidal"
    activation: Annotated[Activation, "function between the feed-forward's two layers (paper: relu)"] = "relu"
    tie: Annotated[Tie, "which of source embedding, target embedding and output share one matrix"] = "all"
    max_positions: Annotated[int, "longest sentence in pieces that the model takes, EOS included"] = 1024
    output_bias: Annotated[bool, "a number of its own for each target piece, added to its logit (paper: none)"] = False

    def __post_init__(self) -> None:
        # All problems are collected first, so that one attempt is enough to mend them all.
        problems = []
        for name, minimum in _MINIMUMS.items():
            number = getattr(self, name)
            if number < minimum:
                problems.append(f"{name} is {number}, a model needs at least {minimum}")

        for name in ("dropout", "attention_dropout", "activation_dropout"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                problems.append(f"{name} is {rate}, it must be at least 0 and below 1")

        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                problems.append(f"{name} is {value!r}, choose one of {', '.join(choices)}")

        # heads > 0: a number that is itself refused above must not divide here.
        if self.heads > 0 and self.d_model % self.heads:
            problems.append(f"d_model {self.d_model} cannot be split into {self.heads} heads; choose a divisor")
        if self.positions == "rotary" and self.heads > 0 and self.d_model // self.heads % 2:
            problems.append(f"rotary positions turn pairs of numbers, a head of {self.d_model // self.heads} is odd")
        if self.positions == "sinusoidal" and self.d_model % 2:
            problems.append(f"sinusoidal positions are pairs of sine and cosine, d_model {self.d_model} is odd")
        if self.tie == "all" and self.source_vocabulary != self.target_vocabulary:
            problems.append(
                "tie = 'all' shares one matrix, but the vocabularies differ "
                f"({self.source_vocabulary} and {self.target_vocabulary}); use a joint tokenizer "
                "or tie = 'decoder'"
            )
        if problems:
            raise ValueError("this is not a model: " + "; ".join(problems))

    @property
    def head_width(self) -> int:
        """The width of one head, of its queries, keys and values (paper: d_k)."""
        return self.d_model // self.heads

    @property
    def norm_first(self) -> bool:
        """Whether there is a norm before each sublayer, and one more at the end of each stack."""
        return self.norm != "post"


# Five: the four special tokens and one other. Two positions: one token and EOS.
_MINIMUMS = {
    "source_vocabulary": 5,
    "target_vocabulary": 5,
    "d_model": 1,
    "d_ff": 1,
    "heads": 1,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "max_positions": 2,
}
_CHOICES = {
    "norm": get_args(Norm),
    "positions": get_args(Positions),
    "activation": get_args(Activation),
    "tie": get_args(Tie),
}

# Settings that older versions wrote, with the value that is still read: the one that means that it
# was not in use.
REMOVED_SETTINGS = {"fewer_heads": ""}


def drop_removed_settings(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a model's settings without removed ones; ValueError for one that was in use."""
    for name, unused in REMOVED_SETTINGS.items():
        if table.get(name, unused) != unused:
            raise ValueError(
                f"{where}: {name} is {table[name]!r:.60}, but models with fewer heads in some "
                "attentions were removed; pellucid 0.1 is the last version that has them: use "
                "it, or a model with all its heads"
            )
    return {name: value for name, value in table.items() if name not in REMOVED_SETTINGS}
