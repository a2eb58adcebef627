"""The keys and values of tokens already decoded, for one call of step-by-step decoding."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.model.masks import causal_mask

ROOM = 16
"""Steps that a buffer of keys and values has room for beyond those it holds when it is enlarged."""


class LayerCache:
    """The keys and values of one decoder layer: of the tokens decoded so far, and of the source.

    Keys and values of tokens are written in place, behind the earlier ones, and never moved.
    """

    def __init__(self) -> None:
        self.source: tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]] | None = None
        self._size = 0
        self._keys: Float[Tensor, "B H C E"] | None = None
        self._values: Float[Tensor, "B H C E"] | None = None

    def append(
        self, k: Float[Tensor, "B H Q E"], v: Float[Tensor, "B H Q E"]
    ) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K E"]]:
        """Write the keys and values of new tokens behind the earlier ones; return those of all tokens.

        Raises ValueError for keys that require a gradient: they are overwritten in place, so none can flow through.
        """
        if k.requires_grad or v.requires_grad:
            raise ValueError(
                "a cache takes no keys that require a gradient; decode under torch.no_grad(), or without a cache"
            )
        end = self._size + k.shape[2]
        if self._keys is None or self._values is None:
            self._keys, self._values = (
                k.new_empty(*k.shape[:2], 0, k.shape[3]),
                v.new_empty(*v.shape[:2], 0, v.shape[3]),
            )
        if end > self._keys.shape[2]:
            capacity = end + ROOM * k.shape[2]
            self._keys, self._values = (self._enlarge(buffer, capacity) for buffer in (self._keys, self._values))
        self._keys[:, :, self._size : end] = k
        self._values[:, :, self._size : end] = v
        self._size = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def keep_source(
        self, k: Float[Tensor, "B H S E"], v: Float[Tensor, "B H S E"]
    ) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]]:
        """Keep the keys and values of the source for all later steps, laid out as those read them; return them."""
        self.source = k.contiguous(), v.contiguous()
        return self.source

    def select(self, sentences: Int[Tensor, " N"]) -> None:
        """Keep only these sentences, in this order."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = (
                buffer[:, :, : self._size].index_select(0, sentences) for buffer in (self._keys, self._values)
            )
        if self.source is not None:
            k, v = self.source
            self.source = k.index_select(0, sentences), v.index_select(0, sentences)

    def _enlarge(self, buffer: Float[Tensor, "B H C E"], capacity: int) -> Float[Tensor, "B H more E"]:
        larger = buffer.new_empty(*buffer.shape[:2], capacity, buffer.shape[3])
        larger[:, :, : self._size] = buffer[:, :, : self._size]
        return larger


class Cache:
    """The tokens decoded so far, as a tree for each sentence: a hypothesis is a path from the root to its last token.

    Tokens stay where they were written. When a beam drops one hypothesis and grows two from another, only `ancestors`
    changes: it says which tokens each hypothesis descends from, and so which it may attend to.
    """

    def __init__(self) -> None:
        self.length = 0
        """Tokens of each hypothesis."""
        self.sentences = 0
        self.layers: dict[int, LayerCache] = {}
        self.positions: Int[Tensor, " N"] | None = None
        """The position of each token of a tree, in the order in which they were written."""
        self.ancestors: Bool[Tensor, "B W N"] | None = None
        """None as long as each sentence has one hypothesis, which descends from all tokens."""

    def layer(self, number: int) -> LayerCache:
        """Return the keys and values of one decoder layer, empty before its first step."""
        return self.layers.setdefault(number, LayerCache())

    def grow(
        self, sentences: int, rows: int, at: Int[Tensor, " T"]
    ) -> tuple[Int[Tensor, " Q"], Bool[Tensor, "#B 1 Q N"]]:
        """Add the tokens at positions `at` to each hypothesis, those of one sentence side by side.

        Returns the position of each new token (Q = W x T) and which of all N tokens it may attend to.
        """
        width, steps = rows // sentences, len(at)
        self.sentences = sentences
        self.length += steps
        before = at[:0] if self.positions is None else self.positions
        new = at.repeat(width) if width > 1 else at
        self.positions = torch.cat([before, new])
        if width == 1 and self.ancestors is None:
            return new, causal_mask(new, self.positions)
        ancestors = (
            at.new_ones(sentences, width, len(before), dtype=torch.bool) if self.ancestors is None else self.ancestors
        )
        same_hypothesis = torch.eye(width, dtype=torch.bool, device=at.device)[:, None, :, None]
        own = (same_hypothesis & causal_mask(at, at)[0, 0][None, :, None, :]).reshape(width * steps, width * steps)
        allowed = torch.cat([ancestors.repeat_interleave(steps, dim=1), own.expand(sentences, -1, -1)], dim=2)
        self.ancestors = allowed[:, steps - 1 :: steps]
        return new, allowed[:, None]

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"] | None = None) -> None:
        """Keep these hypotheses, in this order, one or more of each sentence; and only these sentences, if given."""
        before, self.sentences = self.sentences, self.sentences if sentences is None else len(sentences)
        if self.ancestors is None and len(rows) > self.sentences and self.positions is not None:
            self.ancestors = self.positions.new_ones(before, 1, len(self.positions), dtype=torch.bool)
        if self.ancestors is not None:
            width = len(rows) // max(self.sentences, 1)
            self.ancestors = self.ancestors.flatten(0, 1).index_select(0, rows).unflatten(0, (self.sentences, width))
        if sentences is not None and self.sentences != before:
            for layer in self.layers.values():
                layer.select(sentences)
