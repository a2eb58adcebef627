"""A model of CTranslate2 that becomes one of ours computes what CTranslate2 computes, or is refused with a reason."""

import json
import struct
from argparse import Namespace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.api import load
from pellucid.data.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from pellucid.interop.ctranslate2 import convert_to_ctranslate2
from pellucid.interop.ctranslate2_import import import_ctranslate2_model
from pellucid.interop.marian import export_marian, import_marian
from pellucid.model import ModelConfig, Transformer
from pellucid.store.atomic import verify_directory
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from tests.cli.conftest import call as call
from tests.decode.models import LINES, random_model, small_tokenizer
from tests.interop.marian_models import quiet

pytestmark = quiet
ctranslate2 = pytest.importorskip("ctranslate2")

SHAPES: dict[str, dict[str, Any]] = {
    "as in the paper, norms first": {"norm": "pre"},
    "as in the paper": {"norm": "post", "d_model": 8},
    "learned positions": {"positions": "learned", "activation": "gelu"},
    "no positions": {"positions": "none", "activation": "silu"},
    "rotary and gated": {"norm": "rms", "positions": "rotary", "activation": "swiglu", "d_model": 8},
}


def make_tokenizer(joint: bool = True) -> Tokenizer:
    config = TokenizerConfig(vocabulary=311, joint=joint)
    return Tokenizer.train(LINES[::2], LINES[1::2], config, seed=1, max_sentences=99)


def convert(folder: Path, precision: str = "float32", joint: bool = True, **shape: Any) -> tuple[Any, Tokenizer]:
    """Write a model of random weights for CTranslate2, with its SentencePiece model, and return both."""
    tokenizer = make_tokenizer(joint)
    model = random_model(3, tokenizer.source_vocabulary, tokenizer.target_vocabulary, max_positions=300, **shape)
    convert_to_ctranslate2(model, tokenizer, folder, precision, also=tokenizer.save)
    return model, tokenizer


def score_in_ctranslate2(folder: Path, sources: list[list[str]], targets: list[list[str]]) -> list[list[float]]:
    """Return CTranslate2's log-probabilities of these pieces and the end; rounded weights are multiplied in float32."""
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    return [result.log_probs for result in translator.score_batch(sources, targets)]


def score_here(bundle: Bundle, source: list[int], target: list[int]) -> list[float]:
    """Return our log-probabilities of the same."""
    with torch.inference_mode():
        logits = bundle.model(torch.tensor([source]), torch.tensor([[BOS, *target]]))
    log_probs = logits[0].double().log_softmax(-1)
    return [float(log_probs[place, piece]) for place, piece in enumerate([*target, EOS])]


def assert_same_scores(folder: Path, bundle: Bundle, hands_over_end: bool = False, within: float = 1e-4) -> None:
    """Both give every piece of a few texts the same log-probability."""
    tokenizer = bundle.tokenizer
    sources = tokenizer.encode_source(LINES[:6])
    targets = [ids[:-1] for ids in tokenizer.encode_target([*reversed(LINES)][:6])]
    source_pieces = [tokenizer.source_pieces(ids[:-1] if ids[-1] == EOS else ids) for ids in sources]
    if hands_over_end:
        source_pieces = [[*pieces, "</s>"] for pieces in source_pieces]
    theirs = score_in_ctranslate2(folder, source_pieces, [tokenizer.target_pieces(ids) for ids in targets])
    for source, target, expected in zip(sources, targets, theirs, strict=True):
        assert score_here(bundle, source, target) == pytest.approx(expected, rel=within, abs=within)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_export_comes_back_with_its_very_weights(tmp_path: Path, shape: dict[str, Any], joint: bool):
    model, tokenizer = convert(tmp_path / "ct2", joint=joint, **shape)
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    ours, theirs = dict(model.named_parameters()), dict(bundle.model.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
    lines = [*LINES, "El «ñandú» de 日本 — 37 %"]
    assert bundle.tokenizer.encode_source(lines) == tokenizer.encode_source(lines)
    assert bundle.tokenizer.encode_target(lines) == tokenizer.encode_target(lines)
    verify_directory(tmp_path / "back")


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_rounded_weights_are_those_that_ctranslate2_reads(tmp_path: Path, precision: str):
    convert(tmp_path / "ct2", precision)
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    # The table of positions, which is computed anew, was rounded in CTranslate2, too.
    assert_same_scores(tmp_path / "ct2", bundle, within=1e-2 if precision == "bfloat16" else 1e-4)
    assert bundle.manifest["imported"] == {"from": "ct2", "format": "ctranslate2", "stored_as": precision}


@pytest.mark.parametrize("rounding", ["int8", "int16", "float16", "int8_float16"])
def test_what_ctranslate2s_own_converter_rounds_is_read_too(tmp_path: Path, rounding: str):
    write_opennmt_model(tmp_path / "ct2", rounding)
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    assert_same_scores(tmp_path / "ct2", bundle)


# --- Models of OpenNMT-py, by CTranslate2's own converter: no end of a source, <blank> for padding, a bias ------------


def opennmt_weights(
    pieces: int, share: bool = False, qkv_bias: bool = True
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return weights of the shapes and names that OpenNMT-py gives them: two layers, 8 wide, two heads."""
    random = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    weights: dict[str, Tensor] = {}

    def add_linear(name: str, rows: int, columns: int, bias: bool = True) -> None:
        weights[f"{name}.weight"] = draw(rows, columns) / columns**0.5
        if bias:
            weights[f"{name}.bias"] = draw(rows)

    def add_norm(name: str) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + draw(8) / 5, draw(8) / 5

    def add_attention(name: str) -> None:
        for part in ("linear_query", "linear_keys", "linear_values", "final_linear"):
            add_linear(f"{name}.{part}", 8, 8, qkv_bias)

    # As OpenNMT-py computes them: in float32, a sine beside its cosine.
    rates = torch.exp(torch.arange(0, 8, 2, dtype=torch.float) * -(torch.log(torch.tensor(10000.0)) / 8))
    angles = torch.arange(0, 400).unsqueeze(1).float() * rates
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    for side in ("encoder", "decoder"):
        weights[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = draw(pieces, 8)
        weights[f"{side}.embeddings.make_embedding.pe.pe"] = table[:, None]
        add_norm(f"{side}.layer_norm")
    if share:
        weights["decoder.embeddings.make_embedding.emb_luts.0.weight"] = weights[
            "encoder.embeddings.make_embedding.emb_luts.0.weight"
        ]
    for layer in range(2):
        encoder, decoder = f"encoder.transformer.{layer}", f"decoder.transformer_layers.{layer}"
        add_attention(f"{encoder}.self_attn")
        add_norm(f"{encoder}.layer_norm")
        add_attention(f"{decoder}.self_attn")
        add_attention(f"{decoder}.context_attn")
        add_norm(f"{decoder}.layer_norm_1")
        add_norm(f"{decoder}.layer_norm_2")
        for name in (encoder, decoder):
            add_linear(f"{name}.feed_forward.w_1", 12, 8)
            add_linear(f"{name}.feed_forward.w_2", 8, 12)
            add_norm(f"{name}.feed_forward.layer_norm")
    generator = {"weight": draw(pieces, 8), "bias": draw(pieces)}
    if share:
        generator["weight"] = weights["encoder.embeddings.make_embedding.emb_luts.0.weight"]
    return weights, generator


def write_opennmt_model(folder: Path, rounding: str | None = None, share: bool = False, **options: Any) -> None:
    """Write a checkpoint as OpenNMT-py does, and have CTranslate2 convert it; the pieces lie beside it."""
    from ctranslate2.converters import OpenNMTPyConverter

    model = make_tokenizer().source
    pieces = ["<unk>", "<blank>", "<s>", "</s>", *(model.id_to_piece(i) for i in range(4, model.vocab_size()))]
    weights, generator = opennmt_weights(len(pieces), share, options.pop("qkv_bias", True))
    settings = {"encoder_type": "transformer", "decoder_type": "transformer", "enc_layers": 2, "dec_layers": 2}
    settings |= {"heads": 2, "position_encoding": True, "max_relative_positions": 0, "pos_ffn_activation_fn": "relu"}
    checkpoint = {
        "opt": Namespace(**{**settings, **options}),
        "vocab": {"src": pieces, "tgt": pieces},
        "model": weights,
        "generator": generator,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patched:
        # In place of the pickle that OpenNMT-py writes.
        patched.setattr(torch, "load", lambda *_, **__: checkpoint)
        OpenNMTPyConverter("checkpoint.pt").convert(str(folder), quantization=rounding)
    (folder / "sentencepiece.model").write_bytes(model.serialized_model_proto())


@pytest.mark.parametrize("share", [True, False])
def test_a_model_of_opennmt_reads_sources_without_an_end(tmp_path: Path, share: bool):
    write_opennmt_model(tmp_path / "ct2", share=share)
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    assert bundle.tokenizer.config.source_end is False
    assert EOS not in bundle.tokenizer.encode_source(["A red ball."])[0]
    assert bundle.tokenizer.encode_source([""]) == [[EOS]]
    assert bundle.model.config.positions == "sinusoidal"
    assert bundle.model.config.tie == ("all" if share else "none")
    assert bundle.tokenizer.target_names[:4] == ("<blank>", "<unk>", "<s>", "</s>")
    assert_same_scores(tmp_path / "ct2", bundle)


def test_what_was_imported_without_an_end_goes_back_without_one(tmp_path: Path):
    """Every engine, and the next export, hands over what the model was trained on."""
    write_opennmt_model(tmp_path / "ct2")
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    by_engine = [load(tmp_path / "back", engine=engine).translate(LINES, beam=2) for engine in ("torch", "ctranslate2")]
    texts = [[translation.text for translation in translations] for translations in by_engine]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 3
    convert_to_ctranslate2(bundle.model, bundle.tokenizer, tmp_path / "again", "float32", also=bundle.tokenizer.save)
    again = import_ctranslate2_model(tmp_path / "again", tmp_path / "twice")
    assert again.tokenizer.config == bundle.tokenizer.config
    ours, theirs = dict(bundle.model.named_parameters()), dict(again.model.named_parameters())
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
    with pytest.raises(ValueError, match="without </s> at their end"):
        export_marian(bundle, tmp_path / "marian")


def test_attentions_without_biases_have_biases_of_zero(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2", qkv_bias=False)
    assert_same_scores(tmp_path / "ct2", import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back"))


# --- Models of Hugging Face, by CTranslate2's own converter: the end of a source is handed over ----------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_model_of_transformers_comes_back_through_ctranslate2(tmp_path: Path, norm: str):
    from ctranslate2.converters import TransformersConverter

    tokenizer = make_tokenizer()
    model = random_tied_model(norm)
    save_bundle(tmp_path / "own", model, tokenizer)
    export_marian(load_bundle(tmp_path / "own"), tmp_path / "marian")
    TransformersConverter(str(tmp_path / "marian"), copy_files=["source.spm", "target.spm"]).convert(
        str(tmp_path / "ct2")
    )
    bundle = import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    assert bundle.tokenizer.config.source_end
    assert bundle.model.config.positions == "sinusoidal"
    assert_same_scores(tmp_path / "ct2", bundle, hands_over_end=True)
    # The other way into Pellucid computes the same.
    direct = import_marian(tmp_path / "marian", tmp_path / "direct")
    for line, target in zip(LINES[:3], LINES[3:6], strict=True):
        texts = [
            score_here(b, b.tokenizer.encode_source([line])[0], b.tokenizer.encode_target([target])[0][:-1])
            for b in (bundle, direct)
        ]
        assert texts[0] == pytest.approx(texts[1], rel=1e-4, abs=1e-4)


def random_tied_model(norm: Any) -> Transformer:
    """Make a model whose embeddings and output share one matrix, as in both formats of Hugging Face."""
    torch.manual_seed(4)
    config = ModelConfig(311, 311, d_model=8, d_ff=12, heads=2, encoder_layers=2, decoder_layers=2, norm=norm)
    model = Transformer(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) / 4)
    return model


# --- What is no such model, and what is hostile ---------------------------------------------------------------------


def edit_json(path: Path, **changes: Any) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**table, **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"decoder_start_token": None}, "its first piece is to be chosen for each text"),
        ({"add_source_bos": True}, "add_source_bos is true"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon is 1e-06, and the norms here add 1e-05"),
        ({"eos_token": 3}, "eos_token are '<unk>', '<s>', 3"),
        ({"unk_token": "<nothing>"}, "the source vocabulary has no piece '<nothing>'"),
        ({"decoder_start_token": "<go>"}, "the target vocabulary has no piece '<go>'"),
    ],
)
def test_settings_that_change_the_computation_are_refused(tmp_path: Path, changes: dict[str, Any], part: str):
    convert(tmp_path / "ct2")
    edit_json(tmp_path / "ct2" / "config.json", **changes)
    with pytest.raises(ValueError, match=part):
        import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_model_without_its_tokenizer_says_what_to_copy(call: Any, tmp_path: Path):
    tokenizer = small_tokenizer()
    model = random_model(5, tokenizer.source_vocabulary, tokenizer.target_vocabulary)
    convert_to_ctranslate2(model, tokenizer, tmp_path / "ct2", "float32")
    result = call("import", tmp_path / "ct2", tmp_path / "out")
    assert result.exit_code == 2
    assert "copy the one that it was trained with there, as source.spm and target.spm" in result.stderr
    for name in ("source.spm", "target.spm"):
        (tmp_path / "ct2" / name).write_bytes(tokenizer.source.serialized_model_proto())
    assert call("import", tmp_path / "ct2", tmp_path / "out").exit_code == 0
    assert load_bundle(tmp_path / "out").model.config.d_model == model.config.d_model


def test_other_computations_are_refused_by_the_name_of_what_asks_for_them(tmp_path: Path):
    write_opennmt_model(tmp_path / "ct2", pos_ffn_activation_fn="fast_gelu")
    with pytest.raises(ValueError, match="activation has the number 1"):
        import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")


class File:
    """A model.bin that is written by hand, as the layout says."""

    def __init__(self, version: int = 6, kind: str = "TransformerSpec"):
        self.content = struct.pack("<I", version) + self.text(kind) + struct.pack("<I", 7)

    @staticmethod
    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    def count(self, number: int) -> "File":
        self.content += struct.pack("<I", number)
        return self

    def variable(self, name: str, shape: tuple[int, ...], kind: int, length: int, content: bytes = b"") -> "File":
        sizes = b"".join(struct.pack("<I", size) for size in shape)
        self.content += self.text(name) + struct.pack("<B", len(shape)) + sizes
        self.content += struct.pack("<BI", kind, length) + content
        return self


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (File(version=3), "has version 3 of CTranslate2's file layout"),
        (File(kind="WhisperSpec").count(0).count(0), "is a 'WhisperSpec' of CTranslate2; only translation"),
        (File().count(2**32 - 1), "says that it has 4,294,967,295 variables"),
        (File().count(1).variable("a", (2**31, 2), 0, 2**32 - 1), "has a shape or a type that no weights have"),
        (File().count(1).variable("a", (2**20,), 0, 2**22), "is cut off within the variable 'a'"),
        (File().count(1).variable("a", (1,) * 9, 0, 4), "has a shape or a type that no weights have"),
        (File().count(1).variable("a", (1,), 9, 4, b"0000"), "has a shape or a type that no weights have"),
        (File().count(0).count(0), "encoder/embeddings_0/weight is missing"),
        (File().count(3), "is cut off, or no weights file of CTranslate2"),
    ],
)
def test_a_damaged_or_hostile_weights_file_is_refused_before_memory_is_taken(tmp_path: Path, file: File, part: str):
    convert(tmp_path / "ct2")
    (tmp_path / "ct2" / "model.bin").write_bytes(file.content)
    with pytest.raises(ValueError, match=part):
        import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_weights_file_cut_anywhere_is_refused(tmp_path: Path):
    convert(tmp_path / "ct2")
    path = tmp_path / "ct2" / "model.bin"
    content = path.read_bytes()
    for length in range(0, len(content), len(content) // 60):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"cut off|version|missing|shape or a type"):
            import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")


def test_any_byte_may_be_wrong_and_the_answer_is_a_sentence(tmp_path: Path):
    convert(tmp_path / "ct2", d_model=8)
    path = tmp_path / "ct2" / "model.bin"
    content = path.read_bytes()
    random, messages = Random(7), list[str]()
    for _ in range(150):
        damaged = bytearray(content)
        place = random.randrange(len(content) if random.random() < 0.5 else 3000)
        damaged[place : place + 4] = random.choice(
            [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\x80\x7f", random.randbytes(4)]
        )
        path.write_bytes(damaged[: len(content)])
        try:
            import_ctranslate2_model(tmp_path / "ct2", tmp_path / "back")
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 40
    assert not any("\n" in message for message in messages)
