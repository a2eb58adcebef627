"""An engine or a format that does not know a part of a model refuses it; what translates anyway is the model itself."""

import warnings

import pytest
import torch
from torch import nn

from pellucid import bundle
from pellucid.api import load
from pellucid.decode.config import SearchConfig
from pellucid.decode.engines import TorchEngine
from pellucid.decode.request import Request
from pellucid.decode.stepper import Stepper
from pellucid.interop.ctranslate2 import convert
from pellucid.interop.marian import export_marian
from pellucid.model import Transformer
from pellucid.model.attention import SelfAttention
from pellucid.model.layers import FeedForward
from pellucid.model.positions import Positions
from pellucid.model.watch import unseen
from tests.decode.models import LINES, random_model, small_tokenizer


class Distance(Positions):
    """Each head prefers what is near."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        self.heads = heads

    def bias(self, q_at, k_at):
        distance = (q_at[:, None] - k_at[None, :]).abs()
        return -0.5 * distance.float().expand(1, self.heads, -1, -1)


class Doubled(FeedForward):
    def forward(self, x, watch=unseen):
        return 2 * super().forward(x, watch)


class Turned(SelfAttention):
    def merge(self, z, watch):
        return super().merge(z.flip(1), watch)


class Louder(Transformer):
    def logits(self, states, watch=unseen):
        return super().logits(states.flip(-1), watch)


def with_class(part: nn.Module, kind: type) -> None:
    part.__class__ = kind


def foreign_norm(model):
    model.decoder[0].ffn_residual.norm = nn.RMSNorm(model.config.d_model)


def foreign_activation(model):
    model.encoder[0].ffn.activation = torch.tanh


def foreign_positions(model):
    model.source_positions = model.target_positions = Distance(6, 31, 2)


FOREIGN = {
    "norm": foreign_norm,
    "activation": foreign_activation,
    "positions": foreign_positions,
    "feed-forward": lambda model: with_class(model.encoder[0].ffn, Doubled),
    "attention": lambda model: with_class(model.decoder[0].self, Turned),
    "model": lambda model: with_class(model, Louder),
    "hook": lambda model: model.decoder[0].ffn.register_forward_hook(lambda part, given, made: -made),
}


@pytest.fixture(params=FOREIGN)
def model(request) -> Transformer:
    vocabulary = small_tokenizer().source_vocabulary
    made = random_model(7, vocabulary, vocabulary, encoder_layers=1, decoder_layers=1, max_positions=97)
    FOREIGN[request.param](made)
    return made.eval()


def test_no_format_writes_a_model_with_a_part_it_does_not_know(model, tmp_path):
    with pytest.raises(ValueError, match=r"CTranslate2 cannot hold this model: .*which it does not know"):
        convert(model, small_tokenizer(), tmp_path / "ct2", "float32")
    found = bundle.Bundle(model, small_tokenizer(), {"sha256": ""}, tmp_path / "best")
    with pytest.raises(ValueError, match=r"cannot be exported for transformers: .*which neither format knows"):
        export_marian(found, tmp_path / "marian")
    assert not list(tmp_path.iterdir())


def test_the_torch_engine_searches_with_the_models_own_parts(model):
    tokenizer = small_tokenizer()
    engine = TorchEngine([model], forbidden=(0, 1, 2))
    requests = [Request(ids, number) for number, ids in enumerate(tokenizer.encode_source(LINES[:4]), start=1)]
    found = [hypotheses[0] for hypotheses in engine.search(requests, SearchConfig(beam=1))]
    for request, hypothesis in zip(requests, found, strict=True):
        tokens = [*hypothesis.tokens, *([3] if hypothesis.stop == "eos" else [])]
        [given] = engine.log_probs([list(request.source)], [tokens])
        assert given == pytest.approx(hypothesis.log_probs, abs=1e-4)


def test_auto_takes_torch_for_what_ctranslate2_does_not_know_and_says_so_once(tmp_path, monkeypatch):
    from pellucid.model import transformer

    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31, "positions": "none"}
    bundle.save(tmp_path / "best", random_model(7, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
    plain = load(tmp_path / "best", engine="auto").translate(LINES)
    monkeypatch.setitem(transformer.POSITIONS, "none", Distance)
    monkeypatch.setattr("pellucid.interop.converted._LAYOUT", 10**6)  # the other hash that an edit gives
    torchs = load(tmp_path / "best", engine="torch").translate(LINES)
    assert [each.text for each in torchs] != [each.text for each in plain]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = load(tmp_path / "best", engine="auto")
        assert [each.text for each in model.translate(LINES)] == [each.text for each in torchs]
    assert [str(each.message).partition(":")[0] for each in said] == [
        "torch translates, for CTranslate2 cannot hold this model"
    ]
    with pytest.raises(ValueError, match="source_positions is Distance, which it does not know"):
        load(tmp_path / "best", engine="ctranslate2")
    assert Stepper.serves(load(tmp_path / "best").bundle.model) is False
