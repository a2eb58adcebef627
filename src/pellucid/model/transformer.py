"""The Transformer: embed, encode, decode, logits; weight tying and initialisation (paper, 3)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model import masks
from pellucid.model.cache import Cache
from pellucid.model.dropout import Dropout
from pellucid.model.layers import DecoderLayer, EncoderLayer, make_norm
from pellucid.model.positions import POSITIONS, Positions
from pellucid.model.watch import Watch, unseen
from pellucid.sizes import ModelConfig


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source: a vector for each position, and which positions hold a piece."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]

    def select(self, sentences: Int[Tensor, " N"]) -> "Memory":
        """Only these sentences, in this order."""
        return Memory(self.states[sentences], self.mask[sentences])


class Transformer(nn.Module):
    """Holds the weights. Whatever lives for one call (cache, watcher) is an argument."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = c = config
        self.source_embedding = make_embedding(c.source_vocabulary, c.d_model)
        self.target_embedding = (
            self.source_embedding if c.tie == "all" else make_embedding(c.target_vocabulary, c.d_model)
        )
        self.output_embedding = (
            self.target_embedding if c.tie != "none" else make_embedding(c.target_vocabulary, c.d_model)
        )
        self.output_bias = make_bias(c.target_vocabulary) if c.output_bias else None
        self.source_positions = POSITIONS[c.positions](c.d_model, c.max_positions, c.heads)
        self.target_positions = POSITIONS[c.positions](c.d_model, c.max_positions, c.heads)
        self.dropout = Dropout(c.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(c, f"encoder.{n}") for n in range(c.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(c, f"decoder.{n}") for n in range(c.decoder_layers))
        # Pre-norm leaves the last sum of each stack without a norm; post-norm ends with one.
        self.encoder_norm = make_norm(c.d_model, c.norm) if c.norm_first else nn.Identity()
        self.decoder_norm = make_norm(c.d_model, c.norm) if c.norm_first else nn.Identity()

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], watch: Watch = unseen
    ) -> Float[Tensor, "B T V"]:
        """Teacher forcing: the logits of the piece after each target position, all positions at once.

        `target` begins with the start mark and lacks the end mark.
        """
        return self.logits(self.states(source, target, watch), watch)

    def states(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], watch: Watch = unseen
    ) -> Float[Tensor, "B T D"]:
        """The same before the logits: what training learns from."""
        return self.decode(target, self.encode(source, watch), watch=watch)

    def encode(self, source: Int[Tensor, "B S"], watch: Watch = unseen) -> Memory:
        """Read the source, whose rows end with the end mark and are filled with padding."""
        at = self.position_range(0, source.shape[1])
        here = masks.token_mask(source)
        x = self.embed(source, at, self.source_embedding, self.source_positions, watch.within("encoder"))
        allowed, bias = masks.key_mask(here), self.source_positions.bias(at, at)
        for number, layer in enumerate(self.encoder):
            x = layer(x, allowed, bias, at, self.source_positions, watch.within(f"encoder.{number}"))
        return Memory(watch("memory", self.encoder_norm(x)), here)

    def decode(
        self,
        target: Int[Tensor, "R T"],
        memory: Memory,
        cache: Cache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "R T D"]:
        """The decoder's state at each target position; with a cache, `target` holds only the positions not yet in it.

        With a cache, rows may outnumber the sentences of `memory` by a whole factor W, the width of a beam: row r is
        then a hypothesis of sentence r // W.
        """
        sentences, (rows, steps) = len(memory.states), target.shape
        if cache is None:
            at = k_at = self.position_range(0, steps)
            allowed = masks.causal_mask(at, at)
        else:
            at, allowed = cache.grow(sentences, rows, self.position_range(cache.length, cache.length + steps))
            k_at = cache.positions
        # The hypotheses of a sentence stand side by side, as further positions, and so share its keys and values.
        target = target.reshape(sentences, -1)
        x = self.embed(target, at, self.target_embedding, self.target_positions, watch.within("decoder"))
        bias, memory_allowed = self.target_positions.bias(at, k_at), masks.key_mask(memory.mask)
        for number, layer in enumerate(self.decoder):
            x = layer(
                x,
                allowed,
                bias,
                at,
                self.target_positions,
                memory.states,
                memory_allowed,
                cache.layer(number) if cache is not None else None,
                watch.within(f"decoder.{number}"),
            )
        return watch("states", self.decoder_norm(x)).view(rows, steps, -1)

    def logits(self, states: Float[Tensor, "R T D"], watch: Watch = unseen) -> Float[Tensor, "R T V"]:
        """A number for each target piece: states times the output embedding (paper, 3.4), plus the bias, if any."""
        return watch("logits", F.linear(states, self.output_embedding.weight, self.output_bias))

    def embed(
        self,
        ids: Int[Tensor, "B Q"],
        at: Int[Tensor, " Q"],
        table: nn.Embedding,
        positions: Positions,
        watch: Watch,
    ) -> Float[Tensor, "B Q D"]:
        """Embedding times sqrt(d_model), plus position, dropped out (paper, 3.4, 3.5 and 5.4)."""
        x = watch("embedding", table(ids) * self.config.d_model**0.5)
        return watch("input", self.dropout(positions.embed(x, at, watch)))

    def position_range(self, first: int, end: int) -> Int[Tensor, " Q"]:
        """The positions from `first` up to `end`; ValueError beyond the longest there is."""
        if end > self.config.max_positions:
            raise ValueError(
                f"the sequence has {end} pieces, this model takes {self.config.max_positions}; split the sentence"
            )
        return torch.arange(first, end, device=self.output_embedding.weight.device)


def make_embedding(vocabulary: int, d_model: int) -> nn.Embedding:
    """One vector a piece, of length about 1 before it is scaled: the same matrix serves as output projection."""
    table = nn.Embedding(vocabulary, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table


def make_bias(vocabulary: int) -> nn.Parameter:
    """A number for each piece, zero until it is trained."""
    return nn.Parameter(nn.init.zeros_(torch.empty(vocabulary)))
