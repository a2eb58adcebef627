"""An exported model, converted by CTranslate2's own converter, translates greedily as it does here."""

import random
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch.nn.functional import cross_entropy

from pellucid.api import load
from pellucid.data.tokenizer import BOS, PAD, Tokenizer, TokenizerConfig
from pellucid.interop.marian import export_marian, read_json_files
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import load_bundle, save_bundle
from tests.demo_model import DEMO, needs_demo
from tests.interop.marian_models import load_with_transformers, pad_rows, quiet

pytestmark = quiet
ctranslate2 = pytest.importorskip("ctranslate2")
ENGLISH = ["cat", "dog", "house", "red", "blue", "small", "old", "sees", "eats", "here"]
SPANISH = ["gato", "perro", "casa", "rojo", "azul", "chico", "viejo", "ve", "come", "aquí"]
BOOK = dict(zip(ENGLISH, SPANISH, strict=True))


def phrases(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Draw lines of a few words, and translate them word for word."""
    draw = random.Random(seed)
    lines = [[draw.choice(list(BOOK)) for _ in range(draw.randint(1, 7))] for _ in range(count)]
    return [" ".join(line) for line in lines], [" ".join(BOOK[word] for word in line) for line in lines]


def train_model(directory: Path, norm: Literal["pre", "post"]) -> None:
    """Train a model on part of the phrase book, and save it."""
    sources, targets = phrases(600, seed=1)
    tokenizer = Tokenizer.train(sources, targets, TokenizerConfig(vocabulary=300), seed=1, max_sentences=1000)
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "d_model": 32,
        "d_ff": 64,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_positions": 60,
    }
    config = ModelConfig(tokenizer.source_vocabulary, tokenizer.target_vocabulary, norm=norm, dropout=0.0, **sizes)
    model = Transformer(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    source_ids, target_ids = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    for step in range(150):
        rows = range(step * 40 % 600, step * 40 % 600 + 40)
        ids, _ = pad_rows([source_ids[i] for i in rows], PAD)
        decoder_ids, _ = pad_rows([[BOS, *target_ids[i][:-1]] for i in rows], PAD)
        labels, _ = pad_rows([target_ids[i] for i in rows], PAD)
        logits = model(ids, decoder_ids)
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_bundle(directory, model.eval(), tokenizer)


def assert_same_text(directory: Path, folder: Path, lines: list[str]) -> None:
    """Assert that this program, transformers and CTranslate2 write the same translation of every line."""
    from ctranslate2.converters import TransformersConverter

    export_marian(load_bundle(directory), folder / "hf")
    TransformersConverter(str(folder / "hf")).convert(str(folder / "ct2"))
    theirs, tokenizer = load_with_transformers(folder / "hf")
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    transformers_ids = theirs.generate(**batch, num_beams=1, max_length=61)
    names = [tokenizer.convert_ids_to_tokens(tokenizer(line).input_ids) for line in lines]
    engine = ctranslate2.Translator(str(folder / "ct2"))
    # By default CTranslate2 writes at least one piece, where a model may well end at once.
    results = engine.translate_batch(names, beam_size=1, min_decoding_length=0, max_decoding_length=60)
    ctranslate2_ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    ours = [
        translation.text.strip()
        for translation in load(directory).translate(
            lines, beam=1, max_extra=99, repetition="keep", empty="keep", markup="text"
        )
    ]
    for ids in (transformers_ids, ctranslate2_ids):
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        assert [text.strip() for text in texts] == ours  # a line that was cut off may end with a space
    assert len(set(ours)) > len(set(lines)) // 3, "the model says something of its own for most lines"


@pytest.mark.parametrize("norm", [pytest.param("pre", marks=pytest.mark.slow), "post"])
def test_the_real_converter_and_transformers_write_what_we_write(tmp_path: Path, norm: Literal["pre", "post"]):
    train_model(tmp_path / "ours", norm)
    assert_same_text(tmp_path / "ours", tmp_path, phrases(90, seed=2)[0])


@needs_demo
@pytest.mark.slow  # test_marian.py compares random models
def test_the_demo_model_translates_the_same_everywhere(tmp_path: Path):
    english = "the ball is blue you are welcome a teacher she reads where house I do not know"
    words = english.split()
    draw = random.Random(1)
    lines = [" ".join(draw.choices(words, k=draw.randint(2, 8))).capitalize() + "." for _ in range(90)]
    assert_same_text(DEMO / "best", tmp_path, lines)


@pytest.mark.parametrize("name", ["opus-mt-en-es", "Helsinki-NLP/opus-mt-en-es"])
def test_a_name_of_the_hub_is_answered_with_how_to_fetch_it(name: str):
    advice = "hf download Helsinki-NLP/opus-mt-en-es --local-dir opus-mt-en-es"
    with pytest.raises(ValueError, match=advice):
        read_json_files(Path(name))
