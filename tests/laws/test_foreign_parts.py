"""An engine or a format that does not know a part of a model refuses it; what translates anyway is the model itself."""

import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch import nn

from pellucid.api import Model, load
from pellucid.cli.explain import walk_lines
from pellucid.decode.request import SearchConfig, SearchRequest
from pellucid.decode.torch_engine import TorchEngine
from pellucid.decode.translator import Translator
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.marian import export_marian, import_marian
from pellucid.interpret.page.html_file import manifest_with_answers
from pellucid.model import Transformer
from pellucid.model.attention import SelfAttention
from pellucid.model.config import ModelConfig
from pellucid.model.layers import FeedForward
from pellucid.model.positions import Positions
from pellucid.model.watch import unseen
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.tolerances import approx_log_prob
from tests.variants import mark_others_slow


class Distance(Positions):
    """Each head prefers what is near."""

    def __init__(self, d_model: int, max_positions: int, heads: int):
        super().__init__()
        self.heads = heads

    def bias(self, q_positions, k_positions):
        distance = (q_positions[:, None] - k_positions[None, :]).abs()
        return -0.5 * distance.float().expand(1, self.heads, -1, -1)


class Doubled(FeedForward):
    def forward(self, x, watch=unseen):
        return 2 * super().forward(x, watch)


class Turned(SelfAttention):
    def merge(self, z, watch):
        return super().merge(z.flip(1), watch)


class Backwards(nn.Embedding):
    def forward(self, input):
        return super().forward(input).flip(-1)


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
    "embedding": lambda model: with_class(model.source_embedding, Backwards),
    "model": lambda model: with_class(model, Louder),
    "hook": lambda model: model.decoder[0].ffn.register_forward_hook(lambda part, inputs, output: -output),
}


@pytest.fixture(
    params=mark_others_slow({name: name for name in FOREIGN}, "norm", "positions", "attention", "model", "hook")
)
def model(request) -> Transformer:
    vocabulary = small_tokenizer().source_vocabulary
    made = random_model(7, vocabulary, vocabulary, encoder_layers=1, decoder_layers=1, max_positions=97)
    FOREIGN[request.param](made)
    return made.eval()


def test_no_format_writes_a_model_with_a_part_it_does_not_know(model, tmp_path):
    with pytest.raises(ValueError, match=r"CTranslate2 cannot hold this model: .*which it does not know"):
        convert_to_ctranslate2(model, small_tokenizer(), tmp_path / "ct2", "float32")
    bundle = Bundle(model, small_tokenizer(), {"sha256": ""}, tmp_path / "best")
    with pytest.raises(ValueError, match=r"cannot be exported for transformers: .*which neither format knows"):
        export_marian(bundle, tmp_path / "marian")
    assert not list(tmp_path.iterdir())


def test_the_torch_engine_searches_with_the_models_own_parts(model):
    tokenizer = small_tokenizer()
    engine = TorchEngine([model], forbidden=(0, 1, 2))
    requests = [SearchRequest(ids, number) for number, ids in enumerate(tokenizer.encode_source(LINES[:4]), start=1)]
    bests = [hypotheses[0] for hypotheses in engine.search(requests, SearchConfig(beam=1))]
    for request, hypothesis in zip(requests, bests, strict=True):
        tokens = [*hypothesis.tokens, *([3] if hypothesis.stop == "eos" else [])]
        [log_probs] = engine.log_probs([list(request.source)], [tokens])
        assert log_probs == approx_log_prob(hypothesis.log_probs)


def choices() -> list[tuple[str, str | bool]]:
    """Every value of every option of a model that is one of a few words, or on or off."""
    kinds = get_type_hints(ModelConfig)
    words = [(name, value) for name, kind in kinds.items() for value in get_args(kind)]
    return [*words, *((name, value) for name, kind in kinds.items() if kind is bool for value in (False, True))]


def list_cases() -> list[Any]:
    """Each choice; those that the model has anyway are one model again and again: all of them but one are slow."""
    ordinary = {row.name: row.default for row in fields(ModelConfig)} | {"tie": "decoder"}
    cases = []
    for option, value in choices():
        slow = value in (ordinary[option], "gelu", "silu") and (option, value) != ("norm", ordinary["norm"])
        cases.append(pytest.param(option, value, marks=pytest.mark.slow if slow else ()))
    return cases


@pytest.mark.parametrize(("option", "value"), list_cases())
def test_every_choice_gives_the_same_text_everywhere_or_is_refused(option, value, tmp_path):
    tokenizer = small_tokenizer()
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31, "d_model": 8, "tie": "decoder"}
    config = ModelConfig(*[tokenizer.source_vocabulary] * 2, d_ff=11, heads=2, **{**sizes, option: value})
    torch.manual_seed(7)
    save_bundle(tmp_path / "best", Transformer(config).eval(), tokenizer, step=0)
    model = load(tmp_path / "best", engine="torch")
    assert model.trace(LINES[0]).translation.text == model.translate(LINES[0]).text
    ways = {
        "ctranslate2": (lambda: load(tmp_path / "best", engine="ctranslate2"), 4),
        "exported": (lambda: exported(tmp_path), 4),
        # Marian's vocabulary lacks a piece that is never written: every log-probability is a little higher, and texts
        # of different lengths weigh otherwise in a beam.
        "marian": (lambda: imported(tmp_path), 1),
    }
    for name, (way, beam) in ways.items():
        try:
            other = way()
        except ValueError as error:
            assert "cannot" in str(error), name  # noqa: PT017
            assert "\n" not in str(error), name  # noqa: PT017
        else:
            translations, expected = (loaded.translate(LINES[:3], max_extra=5, beam=beam) for loaded in (other, model))
            assert [text.pieces for text in translations] == [text.pieces for text in expected], name


def exported(folder: Path) -> Model:
    bundle = load_bundle(folder / "best")
    origin = {"sha256": bundle.manifest["sha256"]}
    convert_to_ctranslate2(bundle.model, small_tokenizer(), folder / "ct2", "float32", exported=origin)
    return load(folder / "best", engine="ctranslate2", exported=folder / "ct2")


def imported(folder: Path) -> Model:
    export_marian(load_bundle(folder / "best"), folder / "marian")
    import_marian(folder / "marian", folder / "back")
    return load(folder / "back", engine="torch")


def test_a_trace_shows_a_model_with_foreign_parts_or_refuses_it_in_a_sentence(model):
    tokenizer = small_tokenizer()
    translator = Translator(model, tokenizer)
    loaded = Model(Bundle(model, tokenizer, {"sha256": "", "files": {}}, Path("best")), translator)
    try:
        trace = loaded.trace(LINES[0], beam=1)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert trace.translation.text == loaded.translate(LINES[0], beam=1).text
        assert all(isinstance(line, str) for line in walk_lines(trace))  # what `explain` prints, the verdict among it
        assert manifest_with_answers(trace)["checks"]


def test_auto_takes_torch_for_what_ctranslate2_does_not_know_and_says_so_once(tmp_path, monkeypatch):
    from pellucid.model import transformer

    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31, "positions": "none"}
    save_bundle(tmp_path / "best", random_model(7, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
    plain = load(tmp_path / "best", engine="auto").translate(LINES)
    monkeypatch.setitem(transformer.POSITIONS, "none", Distance)
    monkeypatch.setattr("pellucid.interop.conversion_cache._LAYOUT_VERSION", 10**6)  # the other hash that an edit gives
    torchs = load(tmp_path / "best", engine="torch").translate(LINES)
    assert [translation.text for translation in torchs] != [translation.text for translation in plain]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(tmp_path / "best", engine="auto")
        assert [translation.text for translation in model.translate(LINES)] == [
            translation.text for translation in torchs
        ]
    assert [str(warning.message).partition(":")[0] for warning in caught] == [
        "translating with torch, because CTranslate2 cannot hold this model"
    ]
    with pytest.raises(ValueError, match="source_positions is Distance, which it does not know"):
        load(tmp_path / "best", engine="ctranslate2")
