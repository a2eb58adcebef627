"""`pellucid import` writes a model that translates, or says in one message why it cannot."""

from pathlib import Path
from typing import Any

from pellucid.api import load
from tests.interop.marian_models import change_config as changed
from tests.interop.marian_models import load_with_transformers as of_transformers
from tests.interop.marian_models import quiet
from tests.interop.marian_models import write_marian_model as written

pytestmark = quiet


def test_an_imported_model_translates_as_the_original(call: Any, tmp_path: Path):
    place = written(tmp_path / "theirs", max_position_embeddings=41)
    done = call("import", place, tmp_path / "ours")
    assert (done.exit_code, done.stderr) == (0, "")
    summary, hint = done.stdout.splitlines()
    assert summary.endswith(": 0.0 million weights, 2 + 3 layers, 64 pieces to read and 64 to write")
    assert hint == f"try: pellucid translate {tmp_path / 'ours'}"
    model, tokenizer = of_transformers(place)
    marks = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
    lines = ["The ball.", "The dog drank.", "Yes.", "no water", "price"]
    inputs = tokenizer(lines, return_tensors="pt", padding=True)
    greedy = model.generate(**inputs, num_beams=1, do_sample=False, max_length=42, bad_words_ids=marks)
    ours = load(tmp_path / "ours").translate(lines, method="greedy", max_extra=99, repetition="keep")
    assert [each.text for each in ours] == tokenizer.batch_decode(greedy, skip_special_tokens=True)
    assert len({each.text for each in ours}) > 1


def test_what_cannot_be_imported_is_one_message_and_no_directory(call: Any, tmp_path: Path):
    place = written(tmp_path / "theirs")
    changed(place, scale_embedding=False, activation_function="tanh")
    done = call("import", place, tmp_path / "ours")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"pellucid: {place} cannot be imported: scale_embedding is not true: embeddings are multiplied by "
        "sqrt(d_model) here; activation_function is 'tanh', the feed-forward knows relu, gelu, swish, silu\n"
    )
    assert not (tmp_path / "ours").exists()


def test_a_directory_that_is_not_there_is_one_message(call: Any, tmp_path: Path):
    done = call("import", tmp_path / "nowhere", tmp_path / "ours")
    assert done.exit_code == 2
    assert done.stderr == f"pellucid: {tmp_path / 'nowhere'} is not a directory with a model of Hugging Face\n"


def test_help_says_what_is_taken(call: Any):
    done = call("import", "--help")
    assert done.exit_code == 0
    assert all(
        name in done.stdout for name in ("config.json", "model.safetensors", "vocab.json", "source.spm", ">>fra<<")
    )
