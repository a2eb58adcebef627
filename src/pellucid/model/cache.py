"""The KV cache: keys and values already computed, for one call of step-by-step decoding."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LayerCache:
    """Keys and values of one attention layer, grown at each step (self-attention) or filled once (cross-attention)."""

    def __init__(self) -> None:
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    @property
    def filled(self) -> bool:
        """Whether anything is cached."""
        return self._k is not None

    def keys_and_values(self) -> tuple[Float[Tensor, "R H K E"], Float[Tensor, "R H K E"]]:
        """Return all cached keys and values."""
        assert self._k is not None and self._v is not None
        return self._k, self._v

    def append(
        self, k: Float[Tensor, "R H Q E"], v: Float[Tensor, "R H Q E"]
    ) -> tuple[Float[Tensor, "R H K E"], Float[Tensor, "R H K E"]]:
        """Append the keys and values of new positions, and return all that are cached now."""
        # Every step copies the whole cache: simple, and quadratic in the length. decode/stepper.py writes in place.
        self._k = k if self._k is None else torch.cat([self._k, k], dim=2)
        self._v = v if self._v is None else torch.cat([self._v, v], dim=2)
        return self._k, self._v

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep only these rows, in this order; a row may be named more than once."""
        # Empty in a layer that has not run yet.
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k.index_select(0, rows), self._v.index_select(0, rows)


class Cache:
    """Keys and values of all attention layers of a decoder, for one call of decoding.

    Those of self-attention belong to a row (a hypothesis); those of cross-attention belong to a sentence, and its
    hypotheses share them.
    """

    def __init__(self) -> None:
        # Positions decoded so far; `Transformer.decode` counts them.
        self.length = 0
        self._self_attention: dict[str, LayerCache] = {}
        self._cross_attention: dict[str, LayerCache] = {}

    def self_attention(self, name: str) -> LayerCache:
        """Return the cache of the self-attention in the layer `name`, created empty."""
        return self._self_attention.setdefault(name, LayerCache())

    def cross_attention(self, name: str) -> LayerCache:
        """Return the cache of the cross-attention in the layer `name`, created empty."""
        return self._cross_attention.setdefault(name, LayerCache())

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"] | None = None) -> None:
        """Keep only these rows, in this order, and only these sentences if some are finished."""
        for layer_cache in self._self_attention.values():
            layer_cache.select(rows)
        # A beam reorders its rows at every step, but the keys of a sentence are the same for all of its rows.
        if sentences is not None:
            for layer_cache in self._cross_attention.values():
                layer_cache.select(sentences)
