"""Keys and values already computed, for one call of step-by-step decoding."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LayerCache:
    """The keys and values of one attention: grown with each step (self) or filled once (cross)."""

    def __init__(self) -> None:
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    @property
    def filled(self) -> bool:
        return self._k is not None

    def keys_and_values(self) -> tuple[Float[Tensor, "R H K E"], Float[Tensor, "R H K E"]]:
        """Everything kept so far."""
        assert self._k is not None and self._v is not None
        return self._k, self._v

    def append(
        self, k: Float[Tensor, "R H Q E"], v: Float[Tensor, "R H Q E"]
    ) -> tuple[Float[Tensor, "R H K E"], Float[Tensor, "R H K E"]]:
        """Put the new positions behind the old ones; all of them come back."""
        self._k = k if self._k is None else torch.cat([self._k, k], dim=2)
        self._v = v if self._v is None else torch.cat([self._v, v], dim=2)
        return self._k, self._v

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these rows, in this order; a row may be named twice."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k.index_select(0, rows), self._v.index_select(0, rows)


class Cache:
    """What one call of decoding keeps between steps.

    The keys and values of self-attention belong to a row (a hypothesis); those of cross-attention to a sentence, and
    its hypotheses share them.
    """

    def __init__(self) -> None:
        self.length = 0
        self._self_attention: dict[str, LayerCache] = {}
        self._cross_attention: dict[str, LayerCache] = {}

    def self_attention(self, name: str) -> LayerCache:
        """The place of one self-attention, empty at first."""
        return self._self_attention.setdefault(name, LayerCache())

    def cross_attention(self, name: str) -> LayerCache:
        """The place of one cross-attention, empty at first."""
        return self._cross_attention.setdefault(name, LayerCache())

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"] | None = None) -> None:
        """Keep these rows, in this order; and only these sentences, when some have left."""
        for kept in self._self_attention.values():
            kept.select(rows)
        if sentences is not None:
            for kept in self._cross_attention.values():
                kept.select(sentences)
