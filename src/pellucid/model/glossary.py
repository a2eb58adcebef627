"""The glossary of visible tensors: the name of each, its dimensions, its meaning, its formula."""

from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.model.config import ModelConfig
from pellucid.model.positions import adds_bias

LEGEND = {
    "B": "sentences; where a beam has several rows a sentence, the decoder's rows",
    "S": "source positions",
    "T": "target positions; in cross-attention those of a sentence's rows stand side by side",
    "D": "d_model, the width of the residual stream",
    "H": "heads of the attention",
    "E": "width of one head (the paper's d_k)",
    "F": "d_ff, the inner width of the feed-forward",
    "2F": "twice d_ff: gates, then values",
    "V": "pieces of the target vocabulary",
    "1": "the same for all",
}


@dataclass(frozen=True)
class TensorRow:
    """One visible tensor; `of` is its formula.

    A name without a dot in `of` has the prefix of this row: `scores` in the row of
    decoder.3.cross.pattern is decoder.3.cross.scores.
    """

    name: str
    dims: str
    means: str
    of: str


def glossary(c: ModelConfig) -> list[TensorRow]:
    """Return a row for every tensor that a model shows to a watcher, in the order of computation.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> [row] = [row for row in glossary(config) if row.name == "decoder.3.cross.pattern"]
    >>> row.dims, row.of
    ('B H T S', 'softmax of scores where allowed, 0 elsewhere')
    """
    return [
        *_stack_rows(
            c, "encoder", "source", "S", c.encoder_layers, "memory", "the output of the encoder for each source piece"
        ),
        *_stack_rows(
            c, "decoder", "target", "T", c.decoder_layers, "states", "the output of the decoder at each position"
        ),
        TensorRow(
            "logits", "B T V", "a number for each piece that could come next", "states U^T, U the output embedding"
        ),
    ]


def _stack_rows(
    c: ModelConfig, stack: str, side: str, position: str, depth: int, output: str, means: str
) -> Iterator[TensorRow]:
    """Yield the rows of the encoder or decoder; `position` is its position axis, S or T."""
    stream = f"B {position} D"
    norm, normed = _NORM_FORMULAS[c.norm]
    yield TensorRow(
        f"{stack}.embedding", stream, f"the vector of each {side} piece", f"sqrt(D) * {side}_embedding[{side} pieces]"
    )
    # Rotary and no positions add nothing to the embeddings, so they have no such tensor.
    if c.positions in _POSITION_FORMULAS:
        yield TensorRow(
            f"{stack}.positions",
            f"{position} D",
            "the vector of each position",
            _POSITION_FORMULAS[c.positions].format(side),
        )
    summed = "dropout(embedding)"
    if c.positions in _POSITION_FORMULAS:
        summed = "dropout(embedding + positions)"
    yield TensorRow(f"{stack}.input", stream, "what the first layer reads", summed)
    # x is the name of the tensor that the residual stream holds at this point.
    x = f"{stack}.input"
    for number in range(depth):
        for sublayer in ("self", "ffn") if stack == "encoder" else ("self", "cross", "ffn"):
            prefix = f"{stack}.{number}.{sublayer}"
            residual = f"{prefix}_residual"
            sublayer_input = f"{residual}.norm" if c.norm_first else x
            if c.norm_first:
                yield TensorRow(f"{residual}.norm", stream, normed, f"{norm}({x})")
            yield from (
                _feed_forward_rows(c, prefix, sublayer_input, position)
                if sublayer == "ffn"
                else _attention_rows(c, prefix, sublayer_input, position)
            )
            yield TensorRow(
                f"{residual}.sum",
                stream,
                "input of the sublayer plus its output",
                f"{x} + dropout({prefix}.output)",
            )
            # Post-norm: the norm comes behind the sum, and is what the next sublayer reads.
            if not c.norm_first:
                yield TensorRow(f"{residual}.norm", stream, normed, f"{norm}(sum)")
            x = f"{residual}.sum" if c.norm_first else f"{residual}.norm"

    yield TensorRow(output, stream, means, f"{norm}({x})" if c.norm_first else x)


def _attention_rows(c: ModelConfig, prefix: str, x: str, position: str) -> Iterator[TensorRow]:
    """Yield the rows of one attention, whose queries are made from the tensor named `x`."""
    cross = prefix.endswith("cross")
    # y is the tensor that keys and values are made from, and `key` the letter of its positions.
    y, key = ("memory", "S") if cross else (x, position)
    # Cross-attention is never rotated: source and target positions have no distance to each other.
    rotated = ", turned by position" if c.positions == "rotary" and not cross else ""
    biased = not cross and adds_bias(c.positions)
    allowed = ("1 1 T T", "each position reads itself and earlier ones only", "key position <= query position")
    if prefix.startswith("encoder") or cross:
        allowed = ("B 1 1 S", "which source positions hold a piece, not padding", "source pieces != padding")
    grid = f"B H {position} {key}"
    rows = {
        "q": (f"B H {position} E", "what each position looks for", f"{x} Wq + bq, split into heads{rotated}"),
        "k": (f"B H {key} E", "what each position can be found by", f"{y} Wk + bk, split into heads{rotated}"),
        "v": (f"B H {key} E", "what each position gives when it is read", f"{y} Wv + bv, split into heads"),
        "products": (grid, "how well each query fits each key", "q k^T"),
        "position_bias": (f"1 H {position} {key}", "what positions add to the scores", "by position"),
        "scores": (
            grid,
            "the products, divided so that the softmax is not too sharp",
            "products / sqrt(E) + position_bias" if biased else "products / sqrt(E)",
        ),
        "allowed": allowed,
        "pattern": (
            grid,
            "how much each query position reads from each key position",
            "softmax of scores where allowed, 0 elsewhere",
        ),
        "head_output": (f"B H {position} E", "what each head has read", "dropout(pattern) v"),
        "output": (
            f"B {position} D",
            "what all heads together add",
            "head_output, heads side by side, times Wo + bo",
        ),
    }
    for name, row in rows.items():
        if biased or name != "position_bias":
            yield TensorRow(f"{prefix}.{name}", *row)


def _feed_forward_rows(c: ModelConfig, prefix: str, x: str, position: str) -> Iterator[TensorRow]:
    """Yield the rows of one feed-forward network, which reads the tensor named `x`."""
    # swiglu: W1 makes gates and values, which become one row of width F when they are multiplied.
    width = "2F" if c.activation == "swiglu" else "F"
    yield TensorRow(f"{prefix}.inner", f"B {position} {width}", "the input of each inner unit", f"{x} W1 + b1")
    yield TensorRow(
        f"{prefix}.active",
        f"B {position} F",
        "the output of each inner unit",
        _ACTIVATION_FORMULAS[c.activation],
    )
    yield TensorRow(f"{prefix}.output", f"B {position} D", "what the feed-forward adds", "dropout(active) W2 + b2")


_POSITION_FORMULAS = {
    "sinusoidal": "sin and cos of position / 10000^(2i / D), interleaved",
    "learned": "{}_positions.table[position]",
}
_NORM_FORMULAS = {
    "pre": ("LayerNorm", "each vector with mean 0 and variance 1, rescaled"),
    "post": ("LayerNorm", "each vector with mean 0 and variance 1, rescaled"),
    "rms": ("RMSNorm", "each vector with mean square 1, rescaled"),
}
_ACTIVATION_FORMULAS = {
    "relu": "max(0, inner)",
    "gelu": "inner * Phi(inner), Phi the normal distribution function",
    "silu": "inner * sigmoid(inner)",
    "swiglu": "silu(first half of inner) * second half of inner",
}
