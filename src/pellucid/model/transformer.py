"""The Transformer itself: embed, encode, decode, logits; weight tying, initialisation (paper, 3)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model import masks
from pellucid.model.cache import Cache
from pellucid.model.config import ModelConfig
from pellucid.model.dropout import Dropout
from pellucid.model.layers import DecoderLayer, EncoderLayer, make_norm
from pellucid.model.positions import POSITIONS, Positions
from pellucid.model.watch import Watch, unseen


@dataclass(frozen=True)
class Memory:
    """The encoder's output: a vector for each source position, and a mask of those with a token."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    # False if every position is known to hold a token, so that attention needs no mask.
    padded: bool = True

    def select(self, sentences: Int[Tensor, " N"]) -> "Memory":
        """Return the memory of only these sentences, in this order."""
        return Memory(self.states[sentences], self.mask[sentences], self.padded)


class Transformer(nn.Module):
    """The encoder-decoder model of the paper, from token ids to logits.

    It holds weights only. What lives for one call (cache, watcher) is an argument, so callers can
    share a model.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = c = config
        # The order of construction is the order of random numbers: changing it changes the weights
        # that a seed gives.
        self.source_embedding = make_embedding(c.source_vocabulary, c.d_model)
        # Tied matrices are one module under several names (paper, 3.4): `parameters()` lists it
        # once.
        self.target_embedding = (
            self.source_embedding if c.tie == "all" else make_embedding(c.target_vocabulary, c.d_model)
        )
        self.output_embedding = (
            self.target_embedding if c.tie != "none" else make_embedding(c.target_vocabulary, c.d_model)
        )
        # empty, not zeros: while a file is checked, parameters are made without storage
        # (store/weights.py).
        self.output_bias = nn.Parameter(nn.init.zeros_(torch.empty(c.target_vocabulary))) if c.output_bias else None
        self.source_positions = POSITIONS[c.positions](c.d_model, c.max_positions, c.heads)
        self.target_positions = POSITIONS[c.positions](c.d_model, c.max_positions, c.heads)
        self.dropout = Dropout(c.dropout)

        self.encoder = nn.ModuleList(EncoderLayer(c) for _ in range(c.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(c) for _ in range(c.decoder_layers))
        # Pre-norm leaves the last sum of each stack without a norm, so one follows; post-norm ends
        # with a norm already.
        self.encoder_norm = make_norm(c.d_model, c.norm) if c.norm_first else nn.Identity()
        self.decoder_norm = make_norm(c.d_model, c.norm) if c.norm_first else nn.Identity()

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], watch: Watch = unseen
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each target position, all at once (teacher forcing).

        `target` begins with BOS and has no EOS.
        """
        return self.logits(self.states(source, target, watch), watch)

    def states(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], watch: Watch = unseen
    ) -> Float[Tensor, "B T D"]:
        """Return the decoder's states under teacher forcing; training computes the loss from them."""
        return self.decode(target, self.encode(source, watch), watch=watch)

    def encode(self, source: Int[Tensor, "B S"], watch: Watch = unseen) -> Memory:
        """Encode source sentences; each row ends with EOS and is filled up with padding."""
        position_ids = self.position_range(0, source.shape[1], source.device)
        mask = masks.token_mask(source)
        # Without padding attention needs no mask, which saves six operations in each. Asking would
        # wait for a GPU, and break a compiled graph.
        padded = mask.is_cuda or torch.compiler.is_compiling() or not mask.all()
        allowed = masks.key_mask(mask) if padded or watch.seeing else None

        x = self.embed(source, position_ids, self.source_embedding, self.source_positions, watch.within("encoder"))
        for number, layer in enumerate(self.encoder):
            x = layer(x, allowed, position_ids, self.source_positions, watch.within(f"encoder.{number}"))
        return Memory(watch("memory", self.encoder_norm(x)), mask, padded)

    def decode(
        self,
        target: Int[Tensor, "R T"],
        memory: Memory,
        cache: Cache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "R T D"]:
        """Return the decoder's state at each target position.

        With a cache, `target` holds only the tokens that are not in it yet, and its rows may
        outnumber the sentences of `memory` by a whole factor W, the width of a beam: row r is then
        a hypothesis of sentence r // W.
        """
        (rows, steps), sentences = target.shape, len(memory.states)
        if cache is None:
            position_ids = self.position_range(0, steps, target.device)
            allowed = masks.causal_mask(position_ids, position_ids)
        else:
            new = self.position_range(cache.length, cache.length + steps, target.device)
            position_ids, allowed = cache.grow(sentences, rows, new)

        memory_allowed = masks.key_mask(memory.mask) if memory.padded or watch.seeing else None
        # (R T) -> (B W*T): the hypotheses of a sentence stand side by side, so that they share all
        # of its keys.
        target = target.reshape(sentences, -1)
        x = self.embed(target, position_ids, self.target_embedding, self.target_positions, watch.within("decoder"))
        for number, layer in enumerate(self.decoder):
            x = layer(
                x,
                allowed,
                position_ids,
                self.target_positions,
                memory.states,
                memory_allowed,
                cache.layer(number) if cache is not None else None,
                watch.within(f"decoder.{number}"),
            )

        states = watch("states", self.decoder_norm(x))
        # Not without a cache, where the shape is right already: a sharded model must not return a
        # view.
        return states if cache is None else states.reshape(rows, steps, -1)

    def logits(self, states: Float[Tensor, "R T D"], watch: Watch = unseen) -> Float[Tensor, "R T V"]:
        """Return a logit for each target token: states times the output embedding, plus any bias."""
        return watch("logits", F.linear(states, self.output_embedding.weight, self.output_bias))

    def embed(
        self,
        tokens: Int[Tensor, "B Q"],
        position_ids: Int[Tensor, " Q"],
        table: nn.Embedding,
        positions: Positions,
        watch: Watch,
    ) -> Float[Tensor, "B Q D"]:
        """Return embeddings times sqrt(d_model), plus positions, after dropout (paper, 3.4, 3.5, 5.4)."""
        # The factor brings an embedding, of length about 1, to the scale of the sinusoidal position
        # vectors.
        x = watch("embedding", table(tokens) * self.config.d_model**0.5)
        return watch("input", self.dropout(positions.embed(x, position_ids, watch)))

    def position_range(self, first: int, end: int, device: torch.device) -> Int[Tensor, " Q"]:
        """Return the position ids from `first` to before `end`; ValueError beyond `max_positions`."""
        if end > self.config.max_positions:
            raise ValueError(
                f"the sequence has {end} pieces, this model takes {self.config.max_positions}; split the sentence"
            )
        return torch.arange(first, end, device=device)


def make_embedding(vocabulary: int, d_model: int) -> nn.Embedding:
    """Return a table with a random vector of length about 1 for each token."""
    # Not of length sqrt(d_model), which `embed` wants: the matrix may also be the output
    # projection, whose logits would then start that much too large.
    table = nn.Embedding(vocabulary, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table
