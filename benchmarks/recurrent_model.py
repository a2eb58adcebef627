"""A GRU encoder-decoder with attention, to measure beside the Transformer; it is no part of the package.

The encoder reads in both directions (Bahdanau et al. 2015). The decoder is two GRUs with attention between them (Luong
et al. 2015, "general"): the lower one reads the pieces written so far and asks, the upper one reads what it asked and
what it was answered, so each step knows where the steps before it looked. Nothing goes from the upper GRU back into the
lower one, as in the decoder of Wu et al. 2016, so that in training each GRU runs over a whole target in one call.

With `attention=False` every step is given the two ends of the encoder instead, as in Cho et al. 2014.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.data.tokenizer import PAD
from pellucid.model.dropout import Dropout


@dataclass(frozen=True)
class Sizes:
    """Widths of the embeddings, of each direction of the encoder, and of each GRU of the decoder."""

    vocabulary: int
    width: int
    encoder_width: int
    decoder_width: int
    encoder_layers: int = 2
    dropout: float = 0.0
    attention: bool = True


@dataclass(frozen=True)
class Read:
    """The encoder's states, which positions hold a piece, and both ends: the last state forwards, the first back."""

    states: Float[Tensor, "B S E2"]
    present: Bool[Tensor, "B S"]
    ends: Float[Tensor, "B E2"]


@dataclass
class SearchState:
    """State of a search: the source as read, and the states of both GRUs of the decoder."""

    memory: Read
    lower: Float[Tensor, "1 R D"]
    upper: Float[Tensor, "1 R D"]

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Greedy search has a row for each sentence."""
        memory = self.memory
        self.memory = Read(memory.states[sentences], memory.present[sentences], memory.ends[sentences])
        self.lower, self.upper = self.lower[:, rows], self.upper[:, rows]


class BothWays(nn.Module):
    """A GRU from the first piece to the last, and one back."""

    def __init__(self, into: int, width: int):
        super().__init__()
        self.forwards, self.backwards = gru(into, width), gru(into, width)

    def forward(self, x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S E2"]:
        """Padding comes last in both directions, so no state of a piece has seen any."""
        back = reverse_rows(self.backwards(reverse_rows(x, lengths))[0], lengths)
        return torch.cat([self.forwards(x)[0], back], dim=-1)


class Recurrent(nn.Module):
    """Has `encode`, `decode`, `states` and the embedding as the Transformer has: the same update trains both."""

    output_bias = None

    def __init__(self, c: Sizes):
        super().__init__()
        self.sizes, both_ways = c, 2 * c.encoder_width
        self.output_embedding = nn.Embedding(c.vocabulary, c.width)
        nn.init.normal_(self.output_embedding.weight, std=c.width**-0.5)
        into = [c.width, *[both_ways] * (c.encoder_layers - 1)]
        self.encoder = nn.ModuleList(BothWays(width_in, c.encoder_width) for width_in in into)
        self.begin = linear(both_ways, 2 * c.decoder_width)
        self.lower = gru(c.width, c.decoder_width)
        self.query = linear(c.decoder_width, both_ways) if c.attention else None
        self.upper = gru(c.decoder_width + both_ways, c.decoder_width)
        self.output = linear(c.decoder_width + both_ways, c.width)
        self.dropout = Dropout(c.dropout)

    def encode(self, source: Int[Tensor, "B S"]) -> Read:
        """Read the source, whose rows end with the end mark and are filled with padding."""
        present = source != PAD
        lengths = present.sum(dim=1)
        x = self.embed(source)
        for layer in self.encoder:
            x = self.dropout(layer(x, lengths))
        forwards, backwards = x.chunk(2, dim=-1)
        rows = torch.arange(len(x), device=x.device)
        return Read(x, present, torch.cat([forwards[rows, lengths - 1], backwards[:, 0]], dim=-1))

    def decode(self, target: Int[Tensor, "B T"], memory: Read) -> Float[Tensor, "B T D"]:
        """The state at each target position, the pieces before it given."""
        return self.go_on(target, self.at_start(memory))

    def states(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the states at each target position, from the source; training learns from these."""
        return self.decode(target, self.encode(source))

    def at_start(self, memory: Read) -> SearchState:
        lower, upper = torch.tanh(self.begin(memory.ends))[None].chunk(2, dim=-1)
        return SearchState(memory, lower.contiguous(), upper.contiguous())

    def go_on(self, target: Int[Tensor, "B T"], state: SearchState) -> Float[Tensor, "B T D"]:
        """Return the states that follow `state`, which moves on."""
        queries, state.lower = self.lower(self.embed(target), state.lower)
        context = self.attend(queries, state.memory)
        outputs, state.upper = self.upper(self.dropout(torch.cat([queries, context], dim=-1)), state.upper)
        return self.dropout(torch.tanh(self.output(torch.cat([outputs, context], dim=-1))))

    def attend(self, queries: Float[Tensor, "B T D"], memory: Read) -> Float[Tensor, "B T E2"]:
        """Return what each step gets of the source: a mean of its states by how well they fit the question."""
        if self.query is None:
            return memory.ends[:, None].expand(-1, queries.shape[1], -1)
        scores = self.query(queries) @ memory.states.transpose(1, 2) / memory.states.shape[-1] ** 0.5
        return scores.masked_fill(~memory.present[:, None], -torch.inf).softmax(dim=-1) @ memory.states

    def embed(self, ids: Int[Tensor, "B Q"]) -> Float[Tensor, "B Q W"]:
        return self.dropout(self.output_embedding(ids) * self.sizes.width**0.5)

    def logits(self, states: Float[Tensor, "B T W"]) -> Float[Tensor, "B T V"]:
        return F.linear(states, self.output_embedding.weight)


def step(model: Recurrent):
    """One more piece for each row, as `decode/search.py` wants it."""
    return lambda ids, state: model.logits(model.go_on(ids[:, None], state))[:, 0]


def reverse_rows(x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S I"]:
    """Turn each row, from its last piece to its first; padding stays where it is."""
    at = torch.arange(x.shape[1], device=x.device)
    last = lengths[:, None] - 1
    where = torch.where(at <= last, last - at, at)
    return x.gather(1, where[:, :, None].expand_as(x))


def gru(into: int, width: int) -> nn.GRU:
    """One layer; what comes in by Xavier, what goes round orthogonal, gate by gate, and no bias at first."""
    layer = nn.GRU(into, width, batch_first=True)
    for name, parameter in layer.named_parameters():
        for block in parameter.split(width):
            if name.startswith("bias"):
                nn.init.zeros_(block)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(block)
            else:
                nn.init.xavier_uniform_(block)
    return layer


def linear(into: int, out: int) -> nn.Linear:
    layer = nn.Linear(into, out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
