"""Fast decoding of one token at a time: the formulas of model/, on keys and values that are never moved."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.packed_layers import PackedDecoderLayer, PackedEncoderLayer, pack_norm
from pellucid.decode.packed_linear import PackedLinear
from pellucid.model import Transformer, masks
from pellucid.model.known_parts import unknown_parts
from pellucid.model.layers import DecoderLayer, EncoderLayer
from pellucid.model.watch import unseen

_ROOM = 16
"""Steps a store is made for beyond those it holds."""


class StepperState:
    """Decoder KV cache of a `Stepper`, shared by the hypotheses of a beam.

    Keys and values are never moved when hypotheses change places: `lineage`, the ancestry mask of the beam, says which
    of them each hypothesis descends from. C slots, N of them taken; layers may differ in their heads.
    """

    def __init__(
        self,
        cross_keys_values: list[Float[Tensor, "two B _ S E"]],
        self_keys_values: list[Float[Tensor, "two B _ C E"]],
        padding_mask: Float[Tensor, "B 1 1 S"] | None,
    ):
        self.cross_keys_values = cross_keys_values
        self.self_keys_values = self_keys_values
        self.padding_mask = padding_mask
        self.length = 0
        self.places_used = 0
        self.lineage: Float[Tensor, "B W N"] | None = None  # None: each sentence has one hypothesis, and its keys only

    @property
    def sentences(self) -> int:
        return self.cross_keys_values[0].shape[1]

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        before, after = self.sentences, len(sentences)
        if self.lineage is None and len(rows) > after:
            self.lineage = self.cross_keys_values[0].new_zeros(before, 1, self.places_used)
        if self.lineage is not None:
            self.lineage = (
                self.lineage.flatten(0, 1).index_select(0, rows).unflatten(0, (after, len(rows) // max(after, 1)))
            )
        if after != before:
            self.cross_keys_values = [layer.index_select(1, sentences) for layer in self.cross_keys_values]
            self.padding_mask = None if self.padding_mask is None else self.padding_mask.index_select(0, sentences)
            self.self_keys_values = [
                layer[..., : self.places_used, :].index_select(1, sentences) for layer in self.self_keys_values
            ]

    def reserve_places(self, width: int) -> slice:
        """Return slots for one more key and value of each hypothesis, and extend the ancestry mask."""
        if self.lineage is None and width > 1:
            self.lineage = self.cross_keys_values[0].new_zeros(self.sentences, width, self.places_used)
        new = slice(self.places_used, self.places_used + width)
        if new.stop > self.self_keys_values[0].shape[3]:
            self.self_keys_values = [
                enlarge_store(layer, self.places_used, new.stop + _ROOM * width) for layer in self.self_keys_values
            ]
        if self.lineage is not None:
            itself = self.lineage.new_full((width, width), -torch.inf)
            itself = itself.fill_diagonal_(0.0).expand(len(self.lineage), -1, -1)
            self.lineage = torch.cat([self.lineage, itself], dim=2)
        self.places_used = new.stop
        self.length += 1
        return new


def enlarge_store(store: Float[Tensor, "two B H C E"], used: int, places: int) -> Float[Tensor, "two B H C E"]:
    """Return a larger store with the keys and values of the slots that are taken."""
    larger = store.new_empty(*store.shape[:3], places, store.shape[4])
    larger[..., :used, :] = store[..., :used, :]
    return larger


class Stepper:
    """Fast step of one model, with the logits of `model.decode` and a cache (tests/laws/test_stepper.py).

    It packs the matrices when it is made; `stale` says whether the model has other weights by now.
    """

    def __init__(self, model: Transformer):
        self.model = model
        self.encoder = [PackedEncoderLayer(layer) for layer in model.encoder if isinstance(layer, EncoderLayer)]
        self.encoder_norm = pack_norm(model.encoder_norm)
        self.decoder = [PackedDecoderLayer(layer) for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.decoder_norm = pack_norm(model.decoder_norm)
        self.logits = PackedLinear(model.output_embedding.weight, model.output_bias)
        self.weight_versions = versions_of_weights(model)

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Return whether the stepper supports every part of a model."""
        return not unknown_parts(model)

    @property
    def stale(self) -> bool:
        return self.weight_versions != versions_of_weights(self.model)

    def begin(self, source: Int[Tensor, "B S"]) -> StepperState:
        """Encode the sources, and compute their keys and values once."""
        model, sentences = self.model, len(source)
        at = model.position_range(0, source.shape[1])
        present = masks.token_mask(source)
        absent = None  # sources without padding need no mask
        if not present.all():
            absent = torch.zeros(present.shape, dtype=model.source_embedding.weight.dtype, device=source.device)
            absent = absent.masked_fill_(~present, -torch.inf)[:, None, None]
        x = model.embed(source, at, model.source_embedding, model.source_positions, unseen).flatten(0, 1)
        for layer in self.encoder:
            x = layer(x, absent, at, model.source_positions)
        x = self.encoder_norm(x)
        self_keys_values = [x.new_empty(2, sentences, layer.heads[0], 0, layer.heads[1]) for layer in self.decoder]
        return StepperState(
            [layer.project_source(x, sentences).contiguous() for layer in self.decoder], self_keys_values, absent
        )

    def __call__(self, ids: Int[Tensor, " R"], steps: StepperState) -> Float[Tensor, "R V"]:
        model = self.model
        at = model.position_range(steps.length, steps.length + 1)
        width = len(ids) // steps.sentences
        new = steps.reserve_places(width)
        side_by_side = at.expand(width)
        lineage = None if steps.lineage is None else steps.lineage[:, None]
        x = model.embed(ids[:, None], at, model.target_embedding, model.target_positions, unseen)[:, 0]
        for layer, self_kv, cross_kv in zip(self.decoder, steps.self_keys_values, steps.cross_keys_values, strict=True):
            x = layer(x, self_kv, new, lineage, cross_kv, steps.padding_mask, side_by_side, model.target_positions)
        return self.logits(self.decoder_norm(x))


def versions_of_weights(model: Transformer) -> list[tuple[int, int]]:
    """Return numbers that change when a weight is written or replaced."""
    return [(weight.data_ptr(), weight._version) for weight in model.parameters()]
