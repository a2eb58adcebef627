"""Every visible tensor: its name, its dimensions, what it means, what it is made from."""

from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.sizes import ModelConfig

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
class Row:
    """One visible tensor.

    In `of`, a name without a dot stands beside this one: `scores` in the row of decoder.3.cross.pattern is
    decoder.3.cross.scores.
    """

    name: str
    dims: str
    means: str
    of: str


def glossary(c: ModelConfig) -> list[Row]:
    """A row for every tensor that a model of this config shows to a watcher, in the order of computation.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> [row] = [row for row in glossary(config) if row.name == "decoder.3.cross.pattern"]
    >>> row.dims, row.of
    ('B H T S', 'softmax of scores where allowed, 0 elsewhere')
    """
    return [
        *_stack(c, "encoder", "source", "S", c.encoder_layers, "memory", "what the encoder made of each source piece"),
        *_stack(c, "decoder", "target", "T", c.decoder_layers, "states", "what the decoder knows at each position"),
        Row("logits", "B T V", "a number for each piece that could come next", "states U^T, U the output embedding"),
    ]


def _stack(c: ModelConfig, stack: str, side: str, at: str, depth: int, end: str, means: str) -> Iterator[Row]:
    stream = f"B {at} D"
    norm, normed = _NORMS[c.norm]
    yield Row(
        f"{stack}.embedding", stream, f"the vector of each {side} piece", f"sqrt(D) * {side}_embedding[{side} pieces]"
    )
    if c.positions in _VECTORS:
        yield Row(f"{stack}.positions", f"{at} D", "the vector of each position", _VECTORS[c.positions].format(side))
    summed = "dropout(embedding + positions)" if c.positions in _VECTORS else "dropout(embedding)"
    yield Row(f"{stack}.input", stream, "what the first layer reads", summed)
    x = f"{stack}.input"
    for number in range(depth):
        for part in ("self", "ffn") if stack == "encoder" else ("self", "cross", "ffn"):
            inside, around = f"{stack}.{number}.{part}", f"{stack}.{number}.{part}_residual"
            into = f"{around}.norm" if c.norm_first else x
            if c.norm_first:
                yield Row(f"{around}.norm", stream, normed, f"{norm}({x})")
            yield from _feed_forward(c, inside, into, at) if part == "ffn" else _attention(c, inside, into, at)
            yield Row(
                f"{around}.sum", stream, "what came in plus what the part adds", f"{x} + dropout({inside}.output)"
            )
            if not c.norm_first:
                yield Row(f"{around}.norm", stream, normed, f"{norm}(sum)")
            x = f"{around}.sum" if c.norm_first else f"{around}.norm"
    yield Row(end, stream, means, f"{norm}({x})" if c.norm_first else x)


def _attention(c: ModelConfig, inside: str, x: str, at: str) -> Iterator[Row]:
    cross = inside.endswith("cross")
    y, of = ("memory", "S") if cross else (x, at)
    turned = ", turned by position" if c.positions == "rotary" and not cross else ""
    if inside.startswith("encoder") or cross:
        allowed = Row(
            "allowed", "B 1 1 S", "which source positions hold a piece, not padding", "source pieces != padding"
        )
    else:
        allowed = Row("allowed", "1 1 T T", "itself and the past, never the future", "key position <= query position")
    for row in (
        Row("q", f"B H {at} E", "what each position looks for", f"{x} Wq + bq, split into heads{turned}"),
        Row("k", f"B H {of} E", "what each position offers to be found by", f"{y} Wk + bk, split into heads{turned}"),
        Row("v", f"B H {of} E", "what each position gives when it is read", f"{y} Wv + bv, split into heads"),
        Row("products", f"B H {at} {of}", "how well each query fits each key", "q k^T"),
        Row("scores", f"B H {at} {of}", "the products at a scale that keeps the softmax soft", "products / sqrt(E)"),
        allowed,
        Row(
            "pattern",
            f"B H {at} {of}",
            "how much each query position reads from each key position",
            "softmax of scores where allowed, 0 elsewhere",
        ),
        Row("head_output", f"B H {at} E", "what each head has read", "dropout(pattern) v"),
        Row("output", f"B {at} D", "what all heads together add", "head_output, heads side by side, times Wo + bo"),
    ):
        yield Row(f"{inside}.{row.name}", row.dims, row.means, row.of)


def _feed_forward(c: ModelConfig, inside: str, x: str, at: str) -> Iterator[Row]:
    width = "2F" if c.activation == "swiglu" else "F"
    yield Row(f"{inside}.inner", f"B {at} {width}", "how strongly each inner unit is addressed", f"{x} W1 + b1")
    yield Row(f"{inside}.active", f"B {at} F", "how strongly each inner unit answers", _ACTIVE[c.activation])
    yield Row(f"{inside}.output", f"B {at} D", "what the feed-forward adds", "dropout(active) W2 + b2")


_VECTORS = {
    "sinusoidal": "sin and cos of position / 10000^(2i / D), interleaved",
    "learned": "{}_positions.table[position]",
}
_NORMS = {
    "pre": ("LayerNorm", "each vector with mean 0 and variance 1, rescaled"),
    "post": ("LayerNorm", "each vector with mean 0 and variance 1, rescaled"),
    "rms": ("RMSNorm", "each vector with mean square 1, rescaled"),
}
_ACTIVE = {
    "relu": "max(0, inner)",
    "gelu": "inner * Phi(inner), Phi the normal distribution function",
    "silu": "inner * sigmoid(inner)",
    "swiglu": "silu(first half of inner) * second half of inner",
}
