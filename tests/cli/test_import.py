"""`pellucid import` writes a model that translates, or says in one message why it cannot."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.api import load
from tests.interop.marian_models import change_config, load_with_transformers, quiet, write_marian_model

pytestmark = quiet


@pytest.mark.slow  # tests/interop/test_marian.py compares more models and searches
def test_an_imported_model_translates_as_the_original(call: Any, tmp_path: Path):
    original = write_marian_model(tmp_path / "theirs", max_position_embeddings=41)
    result = call("import", original, tmp_path / "ours")
    assert (result.exit_code, result.stderr) == (0, "")
    summary, hint = result.stdout.splitlines()
    assert summary.endswith(": 0.0 million weights, 2 + 3 layers, 64 pieces to read and 64 to write")
    assert hint == f"try: pellucid translate {tmp_path / 'ours'}"
    model, tokenizer = load_with_transformers(original)
    forbidden = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
    lines = ["The ball.", "The dog drank.", "Yes.", "no water", "price"]
    inputs = tokenizer(lines, return_tensors="pt", padding=True)
    greedy = model.generate(**inputs, num_beams=1, do_sample=False, max_length=42, bad_words_ids=forbidden)
    translations = load(tmp_path / "ours").translate(
        lines, method="greedy", max_extra=99, repetition="keep", empty="keep"
    )
    assert [translation.text for translation in translations] == tokenizer.batch_decode(
        greedy, skip_special_tokens=True
    )
    assert len({translation.text for translation in translations}) > 1


def test_a_model_that_cannot_be_imported_gives_one_message_and_no_directory(refuse: Any, tmp_path: Path):
    original = write_marian_model(tmp_path / "theirs")
    change_config(original, scale_embedding=False, activation_function="tanh")
    sentence = refuse("import", original, tmp_path / "ours")
    for part in (f"{original} cannot be imported: ", "scale_embedding is not true", "activation_function is 'tanh'"):
        assert part in sentence
    assert not (tmp_path / "ours").exists()


def test_a_missing_directory_gives_one_message(refuse: Any, tmp_path: Path):
    nowhere = tmp_path / "nowhere"
    assert f"{nowhere} is not a directory" in refuse("import", nowhere, tmp_path / "ours")


def test_the_help_names_the_files_that_are_read(call: Any):
    result = call("import", "--help")
    assert result.exit_code == 0
    assert all(
        name in result.stdout for name in ("config.json", "model.safetensors", "vocab.json", "source.spm", ">>fra<<")
    )
