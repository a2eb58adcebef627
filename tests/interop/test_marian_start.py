"""An imported model that is fine-tuned here is still a model of transformers afterwards."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.data.tokenizer import BOS, PAD, UNK
from pellucid.interop.marian import export_marian, import_marian
from pellucid.store.directory import load_bundle
from pellucid.training import shard_writing
from pellucid.training.config import RunConfig, make_run, read_run
from pellucid.training.data import read_data
from pellucid.training.loop import train_run
from tests.interop.marian_models import (
    SOURCES,
    TARGETS,
    load_with_transformers,
    pad_rows,
    quiet,
    write_json,
    write_marian_model,
)
from tests.interop.test_marian import marian_ids
from tests.tolerances import assert_same_sums
from tests.variants import mark_others_slow

pytestmark = quiet


@pytest.fixture(params=mark_others_slow({"one vocabulary": False, "two vocabularies": True}, "two vocabularies"))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> RunConfig:
    """A run of a few updates that starts from an imported model, on sentences of its languages."""
    options: dict[str, Any] = {"share_encoder_decoder_embeddings": False} if request.param else {}
    import_marian(write_marian_model(tmp_path / "theirs", separate=request.param, **options), tmp_path / "start")
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
    files = {key: str(tmp_path / key.removeprefix("dev_")) for key in ("source", "target", "dev_source", "dev_target")}
    return make_run(
        {
            "data": {**files, "max_pieces": 60},
            "model": {"start": str(tmp_path / "start"), "dropout": 0.2},
            "train": {"steps": 3, "batch_tokens": 300, "dev_sentences": 2},
        }
    )


def test_an_imported_model_is_fine_tuned_and_exported_again(run, tmp_path):
    out = train_run(run, tmp_path / "out").out
    tuned = load_bundle(out / "last")
    assert read_run(out / "run.toml") == run
    assert tuned.tokenizer.encode_target(TARGETS) == load_bundle(tmp_path / "start").tokenizer.encode_target(TARGETS)
    biases = [loaded.model.get_parameter("output_bias") for loaded in (tuned, load_bundle(tmp_path / "start"))]
    assert not torch.equal(*biases), "theirs has one, and it learns too"
    export_marian(tuned, tmp_path / "again")
    theirs, tokenizer = load_with_transformers(tmp_path / "again")
    ids = tuned.tokenizer.encode_source(SOURCES)
    sources, targets = marian_ids(tmp_path / "again", tuned)
    assert tokenizer(SOURCES).input_ids == [[sources[i] for i in row] for row in ids]
    decoder_ids = [[BOS, *row[:-1]] for row in tuned.tokenizer.encode_target(TARGETS)]
    source, mask = pad_rows(ids, PAD)
    target, _ = pad_rows(decoder_ids, UNK)
    pieces = [i for i in range(len(targets)) if i not in (PAD, BOS)]
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor(sources)[source],
            attention_mask=mask,
            decoder_input_ids=torch.tensor(targets)[target],
        ).logits[..., [targets[i] for i in pieces]]
        log_probs = tuned.model(source, target)[..., pieces].log_softmax(-1)
        assert_same_sums(log_probs, logits.log_softmax(-1))


def test_shards_of_other_numbers_for_the_same_pieces_are_refused(run, tmp_path):
    """The SentencePiece models stay the same, two pieces change their numbers."""
    shard_writing.prepare_shards(run, tmp_path / "shards", 1, lambda message: None)
    sharded = replace(run, data=replace(run.data, shards=str(tmp_path / "shards")))
    assert read_data(sharded).encoded.targets.ids.tolist() == read_data(run).encoded.targets.ids.tolist()
    for path in (tmp_path / "theirs").glob("*vocab.json"):
        ids = json.loads(path.read_text(encoding="utf-8"))
        first, second = (name for name, number in ids.items() if number in (5, 6))
        write_json(path, {**ids, first: ids[second], second: ids[first]})
    shutil.rmtree(tmp_path / "start")
    import_marian(tmp_path / "theirs", tmp_path / "start")
    with pytest.raises(ValueError, match=r"tokenizer of model\.start is '\w{12}', it was made with '\w{12}'"):
        read_data(sharded)
