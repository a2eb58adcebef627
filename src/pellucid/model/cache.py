"""The KV cache: keys and values of the tokens decoded so far, for one call of decoding."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.model.masks import causal_mask

# Further steps that a buffer has room for when it is enlarged, so that most steps copy nothing.
ROOM = 16


class LayerCache:
    """Keys and values of one decoder layer: of the tokens decoded so far, and of the source.

    C is the number of tokens that the buffers have room for.
    """

    # Position of each token, which `Cache.layer` sets: the tokens of a beam do not stand at 0, 1,
    # 2, ...
    key_ids: Int[Tensor, " K"]

    def __init__(self) -> None:
        self.source: tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]] | None = None
        self._keys: Float[Tensor, "B H C E"] | None = None
        self._values: Float[Tensor, "B H C E"] | None = None
        self._size = 0

    def append(
        self, k: Float[Tensor, "B H Q E"], v: Float[Tensor, "B H Q E"]
    ) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K E"]]:
        """Write the keys and values of new tokens behind the others, in place; return all of them.

        Raises ValueError for keys that require a gradient: a backward pass would find them
        overwritten.
        """
        if k.requires_grad or v.requires_grad:
            raise ValueError("a cache holds no gradients; decode under torch.no_grad(), or without a cache")

        end = self._size + k.shape[2]
        if self._keys is None or self._values is None or end > self._keys.shape[2]:
            room = end + ROOM * k.shape[2]
            self._keys = self._enlarge(self._keys, k, room)
            self._values = self._enlarge(self._values, v, room)
        self._keys[:, :, self._size : end] = k
        self._values[:, :, self._size : end] = v
        self._size = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def _enlarge(
        self, buffer: Float[Tensor, "B H C E"] | None, like: Float[Tensor, "B H Q E"], room: int
    ) -> Float[Tensor, "B H more E"]:
        larger = like.new_empty(*like.shape[:2], room, like.shape[3])
        if buffer is not None:
            larger[:, :, : self._size] = buffer[:, :, : self._size]
        return larger

    def keep_source(
        self, k: Float[Tensor, "B H S E"], v: Float[Tensor, "B H S E"]
    ) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]]:
        """Keep the keys and values of the source for all later steps, and return them."""
        # Contiguous: every step reads them, and as they come from the projection the heads lie
        # interleaved.
        self.source = k.contiguous(), v.contiguous()
        return self.source

    def select(self, sentences: Int[Tensor, " N"]) -> None:
        """Keep only these sentences, in this order."""
        # A layer that has not run yet has neither.
        if self._keys is not None and self._values is not None:
            self._keys = self._keys[:, :, : self._size].index_select(0, sentences)
            self._values = self._values[:, :, : self._size].index_select(0, sentences)
        if self.source is not None:
            k, v = self.source
            self.source = k.index_select(0, sentences), v.index_select(0, sentences)


class Cache:
    """The tokens decoded so far, as a tree for each sentence.

    A hypothesis is a path from the root of its tree to its newest token. Keys and values stay where
    they were written. When a beam drops one hypothesis and continues another in two ways, only
    `ancestors` changes, which says from which tokens each hypothesis descends, and so which it may
    attend to.
    """

    def __init__(self) -> None:
        self.length = 0
        """Tokens of each hypothesis."""
        self.layers: dict[int, LayerCache] = {}
        self._sentences = 0
        self._key_ids = torch.empty(0, dtype=torch.int64)
        self._ancestors: Bool[Tensor, "B W N"] | None = None

    def layer(self, number: int) -> LayerCache:
        """Return the keys and values of a decoder layer, created empty."""
        if number not in self.layers:
            self.layers[number] = LayerCache()
        layer = self.layers[number]
        layer.key_ids = self._key_ids
        return layer

    def grow(
        self, sentences: int, rows: int, position_ids: Int[Tensor, " T"]
    ) -> tuple[Int[Tensor, " Q"], Bool[Tensor, "#B 1 Q N"] | None]:
        """Append T tokens to each hypothesis.

        The W hypotheses of a sentence share one row, so a row gets Q = W * T new tokens.

        Returns the positions of the new tokens, and which of all N tokens of its tree each of them
        may attend to (None: all).
        """
        width, steps = rows // sentences, len(position_ids)
        self.length += steps
        self._sentences = sentences

        query_ids = position_ids.repeat(width) if width > 1 else position_ids
        older = len(self._key_ids)
        self._key_ids = torch.cat([self._key_ids.to(position_ids.device), query_ids])
        # With one hypothesis a sentence, as in greedy search, the tree is a line: its newest token
        # reads all of it.
        if width == 1 and self._ancestors is None:
            return query_ids, causal_mask(query_ids, self._key_ids) if steps > 1 else None

        if self._ancestors is None:
            self._ancestors = position_ids.new_ones(sentences, width, older, dtype=torch.bool)
        # Among the new tokens, each may read those before it in its own hypothesis.
        among_new = torch.eye(width, dtype=torch.bool, device=position_ids.device)
        ancestors = self._ancestors
        # (W T W T), then (W*T W*T); not in a search, where these operations would be part of each
        # step.
        if steps > 1:
            causal = causal_mask(position_ids, position_ids)[0, 0][None, :, None, :]
            among_new = (among_new[:, None, :, None] & causal).reshape(len(query_ids), -1)
            ancestors = ancestors.repeat_interleave(steps, dim=1)

        allowed = torch.cat([ancestors, among_new.expand(sentences, -1, -1)], dim=2)
        # What the last new token of a hypothesis reads is what the hypothesis descends from.
        self._ancestors = allowed[:, steps - 1 :: steps]
        return query_ids, allowed[:, None]

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"] | None = None) -> None:
        """Keep these hypotheses, sentence by sentence; only these sentences if some are finished."""
        # Sampling selects before its first step: there is nothing to select among yet.
        if not self.length:
            return

        before = self._sentences
        self._sentences = before if sentences is None else len(sentences)

        # The first time that a sentence has several hypotheses: so far its only one descended from
        # all tokens.
        if self._ancestors is None and len(rows) > self._sentences:
            self._ancestors = self._key_ids.new_ones(before, 1, len(self._key_ids), dtype=torch.bool)
        if self._ancestors is not None:
            width = len(rows) // max(self._sentences, 1)
            kept = self._ancestors.flatten(0, 1).index_select(0, rows)
            self._ancestors = kept.unflatten(0, (self._sentences, width))

        if sentences is not None and self._sentences != before:
            for layer in self.layers.values():
                layer.select(sentences)
