"""Text in memory and shards on the disk give the same training, and several corpora are mixed by their weights."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import to_toml
from pellucid.data.stream import Stream
from pellucid.store.atomic import read_manifest
from pellucid.training import data, loop, shard_writing
from pellucid.training.config import RunConfig, make_run, read_run
from pellucid.training.data import find_languages, read_data
from pellucid.training.log import read_log
from pellucid.training.loop import train_run
from tests.training.corpora import mixed, small_run


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_writing, "PAIRS_PER_PART", 37)


def quick_run(folder: Path, **changes: dict) -> RunConfig:
    """Return a run of few updates that hardly evaluates."""
    settings = {"steps": 7, "evaluate_every": 7, "save_every": 3, "dev_sentences": 1, "dev_beam": 1, "keep": 2}
    return small_run(folder, **{**changes, "train": {**settings, **changes.get("train", {})}})


def mixed_run(folder: Path, **changes: dict) -> RunConfig:
    """Return a quick run on three corpora."""
    return mixed(quick_run(folder, **changes), folder)


def without_dev(run: RunConfig) -> RunConfig:
    return replace(run, data=replace(run.data, dev_source=None, dev_target=None, held_out=11))


RUNS = {
    "one corpus": quick_run,
    "several": mixed_run,
    "held out": lambda folder: without_dev(quick_run(folder)),
    "held out of several": lambda folder: without_dev(mixed_run(folder)),
    "context": lambda folder: quick_run(folder, data={"context": 1}),
    "held out with context": lambda folder: without_dev(quick_run(folder, data={"context": 1})),
}


def with_shards(run: RunConfig, folder: Path) -> RunConfig:
    shard_writing.prepare_shards(run, folder, 2, lambda message: None)
    return replace(run, data=replace(run.data, shards=str(folder)))


def read_reports(log: Path) -> list[dict]:
    """Return the reports of a run without their times, which differ from run to run."""
    times = ("seconds", "tokens_per_second")
    return [{key: value for key, value in row.items() if key not in times} for row in read_log(log)]


@pytest.mark.parametrize("kind", RUNS)
def test_shards_hold_what_reading_the_text_gives(kind: str, tmp_path: Path):
    run = RUNS[kind](tmp_path / "data")
    text, mapped = read_data(run), read_data(with_shards(run, tmp_path / "shards"))
    assert mapped.fingerprint == text.fingerprint
    assert sorted(mapped.notes) == sorted(text.notes)
    assert mapped.encoded.corpora == text.encoded.corpora
    assert (mapped.dev.sources, mapped.dev.targets) == (text.dev.sources, text.dev.targets)
    assert (list(mapped.dev.lines), mapped.dev.files) == (list(text.dev.lines), text.dev.files)
    assert mapped.tokenizer.source.serialized_model_proto() == text.tokenizer.source.serialized_model_proto()
    for side in ("sources", "targets"):
        of_text, of_shards = getattr(text.encoded, side), getattr(mapped.encoded, side)
        assert of_text.ids.dtype == of_shards.ids.dtype
        assert np.array_equal(of_text.ids, of_shards.ids)
        assert np.array_equal(of_text.starts, of_shards.starts)


def test_training_on_shards_is_training_on_the_text_to_the_bit(tmp_path: Path):
    run = mixed_run(tmp_path / "data", model={"dropout": 0.2})
    train_run(run, tmp_path / "text")
    train_run(with_shards(run, tmp_path / "shards"), tmp_path / "mapped")
    for name in ("last", "best", "average"):
        of_text, of_shards = (tmp_path / out / name / "model.safetensors" for out in ("text", "mapped"))
        assert of_text.read_bytes() == of_shards.read_bytes(), name
    assert read_reports(tmp_path / "text" / "log.jsonl") == read_reports(tmp_path / "mapped" / "log.jsonl")


def test_a_run_begun_on_text_resumes_on_shards_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run, real_update, steps = (
        mixed_run(tmp_path / "data", model={"dropout": 0.2}),
        loop.update_within_memory,
        iter(range(99)),
    )

    def update_or_interrupt(*arguments):
        if next(steps) == 5:
            raise KeyboardInterrupt
        return real_update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update_within_memory", update_or_interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_run(run, tmp_path / "moved")
    train_run(with_shards(run, tmp_path / "shards"), tmp_path / "moved", resume=True)
    train_run(run, tmp_path / "undisturbed")
    assert (tmp_path / "moved/last/model.safetensors").read_bytes() == (
        tmp_path / "undisturbed/last/model.safetensors"
    ).read_bytes()
    assert read_reports(tmp_path / "moved/log.jsonl") == read_reports(tmp_path / "undisturbed/log.jsonl")


def test_the_ledger_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = mixed_run(tmp_path / "data", train={"steps": 31, "evaluate_every": 31, "save_every": 31})
    train_run(run, tmp_path / "out")
    ledgers = [row["seen"] for row in read_log(tmp_path / "out" / "log.jsonl") if "seen" in row]
    data = read_data(run)
    stream, counts = Stream(data.encoded, run.train.batch_tokens, run.seed), Counter()
    for _ in range(31):
        counts += Counter("clean" if i < 89 else "web" if i < 156 else "rows.tsv" for i in next(stream).indices)
    assert ledgers[-1] == dict(counts) == stream.ledger
    assert f"The model saw {stream.describe_ledger}." in capsys.readouterr().err


def test_a_vocabulary_is_learned_from_the_same_sample_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "TOKENIZER_SENTENCES", 23)
    run = mixed_run(tmp_path / "data")
    text, mapped = read_data(run), read_data(with_shards(run, tmp_path / "shards"))
    assert mapped.tokenizer.source.serialized_model_proto() == text.tokenizer.source.serialized_model_proto()
    monkeypatch.setattr(data, "TOKENIZER_SENTENCES", 1000)
    assert read_data(run).tokenizer.source.serialized_model_proto() != text.tokenizer.source.serialized_model_proto()


def test_held_out_sentences_are_in_no_corpus(tmp_path: Path):
    run = without_dev(mixed_run(tmp_path / "data"))
    corpus = data.read_corpus(run.data, run.seed)
    [dev] = corpus.dev_sets
    held_out = set(dev.sources), set(dev.targets)
    assert dev.files[0].endswith("source.txt")
    for train_corpus in corpus.train:
        assert not set(train_corpus.sources) & held_out[0]
        assert not set(train_corpus.targets) & held_out[1]
    assert len(corpus.train) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"max_pieces": 31}}, r"data\.max_pieces is 31, it was made with 41"),
        ({"tokenizer": {"vocabulary": 280}}, r"tokenizer\.vocabulary is 280, it was made with 290"),
        ({"data": {"held_out": 9, "dev_source": None, "dev_target": None}}, r"data\.held_out is 9, .* with None"),
    ],
)
def test_shards_of_other_settings_are_refused(change: dict, message: str, tmp_path: Path):
    sharded = with_shards(quick_run(tmp_path / "data"), tmp_path / "shards")
    changed = replace(sharded, **{name: replace(getattr(sharded, name), **table) for name, table in change.items()})
    with pytest.raises(ValueError, match=rf"shards is not of this run: {message}"):
        read_data(changed)


def test_another_seed_is_refused_only_if_the_shards_hold_pairs_out(tmp_path: Path):
    sharded = with_shards(quick_run(tmp_path / "data"), tmp_path / "shards")
    assert len(read_data(replace(sharded, seed=5)).encoded) == 211
    held_out_run = with_shards(without_dev(quick_run(tmp_path / "data")), tmp_path / "drawn")
    with pytest.raises(ValueError, match="seed is 5, it was made with 1"):
        read_data(replace(held_out_run, seed=5))


def test_a_corpus_that_changed_is_named_and_one_that_was_only_touched_is_not(tmp_path: Path):
    run = quick_run(tmp_path / "data")
    sharded = with_shards(run, tmp_path / "shards")
    source = tmp_path / "data" / "source.txt"
    source.write_bytes(source.read_bytes())  # the same text at another time
    read_data(sharded)
    source.write_text(source.read_text(encoding="utf-8").replace("six", "ten", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"source\.txt has changed since; run `pellucid prepare` again"):
        read_data(sharded)
    source.unlink()
    assert len(read_data(sharded).encoded) == 211  # moved to another machine without the text


def test_other_corpora_are_refused(tmp_path: Path):
    sharded = with_shards(mixed_run(tmp_path / "data"), tmp_path / "shards")
    with_fewer_corpora = replace(sharded, data=replace(sharded.data, corpus=sharded.data.corpus[:2]))
    with pytest.raises(ValueError, match=r"files of each corpus is \[2, 2\], it was made with \[2, 2, 1\]"):
        read_data(with_fewer_corpora)


def test_weights_may_change_without_preparing_again(tmp_path: Path):
    sharded = with_shards(mixed_run(tmp_path / "data"), tmp_path / "shards")
    corpora = tuple(replace(corpus, weight=3.0) for corpus in sharded.data.corpus)
    changed = read_data(replace(sharded, data=replace(sharded.data, corpus=corpora)))
    assert [share.weight for share in changed.encoded.corpora] == [3.0] * 3


def test_damaged_shards_are_refused(tmp_path: Path):
    sharded = with_shards(quick_run(tmp_path / "data"), tmp_path / "shards")
    ids = tmp_path / "shards" / "target.ids"
    whole = ids.read_bytes()
    ids.write_bytes(whole[:-2])
    with pytest.raises(
        ValueError, match=r"shards is damaged: target\.ids is missing or was cut; run `pellucid prepare`"
    ):
        read_data(sharded)
    ids.write_bytes(whole)
    manifest = tmp_path / "shards" / "manifest.json"
    contents = json.loads(manifest.read_text(encoding="utf-8"))
    for key, value in (("corpora", [{"pairs": 7}]), ("types", 5)):
        manifest.write_text(json.dumps({**contents, key: value}), encoding="utf-8")
        with pytest.raises(ValueError, match=r"manifest\.json was changed"):
            read_data(sharded)
    manifest.unlink()
    with pytest.raises(ValueError, match="holds no shards; make them with `pellucid prepare"):
        read_data(sharded)


def test_a_mixture_reads_back_from_its_run_file(tmp_path: Path):
    run = mixed_run(tmp_path / "data")
    (tmp_path / "run.toml").write_text(to_toml(run), encoding="utf-8")
    assert read_run(tmp_path / "run.toml") == run


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"corpus": [{"source": "a"}]}, "name either source and target or pairs, for each corpus"),
        ({"corpus": [{"pairs": "a.tsv", "source": "a", "target": "b"}]}, "name either source and target or pairs"),
        ({"corpus": [{"pairs": "a.tsv", "weight": 0}]}, r"a\.tsv has weight 0.*; it must be above 0, up to 1000"),
        ({"corpus": [{"pairs": "a.tsv", "weight": "nan"}]}, "weight nan"),
        ({"corpus": [{"pairs": "a.tsv", "weigth": 2}]}, r"unknown key 'data\.corpus\.weigth'; did you mean 'weight'"),
        ({"corpus": [{"pairs": "x/a.tsv"}, {"pairs": "y/a.tsv"}]}, r"two are called 'a\.tsv'; give each a name"),
        ({"corpus": [{"pairs": "a.tsv"}], "train": "b.tsv"}, r"not both"),
        ({"corpus": 5}, r"'data\.corpus' is 5"),
        ({"corpus": []}, "no sentences to train on"),
    ],
)
def test_malformed_corpora_are_refused_with_the_reason(data: dict, message: str):
    with pytest.raises(ValueError, match=message):
        make_run({"data": data, "train": {"steps": 1}})


TMX = """<tmx version="1.4"><header srclang="en-GB"/><body>
<tu><tuv xml:lang="en-GB"><seg>one</seg></tuv><tuv xml:lang="de"><seg>eins</seg></tuv></tu></body></tmx>"""


@pytest.mark.parametrize(
    ("corpora", "languages"),
    [
        ([{"source": "a.en", "target": "a.es.gz"}], ("en", "es")),
        ([{"source": "a.src", "target": "a.tgt"}], None),
        ([{"source": "a.src", "target": "a.tgt", "source_language": "it", "target_language": "no"}], ("it", "no")),
        ([{"pairs": "memory.tmx"}], ("en-GB", "de")),
        ([{"pairs": "memory.tmx", "source_language": "de", "target_language": "en"}], ("de", "en")),
        ([{"pairs": "gone.tmx"}], None),
        ([{"pairs": "rows.tsv"}], None),
        ([{"pairs": "rows.tsv", "source_language": "2", "target_language": "1"}], None),
        ([{"source": "a.en", "target": "a.es", "name": "1"}, {"source": "b.en", "target": "b.es"}], ("en", "es")),
        ([{"source": "a.en", "target": "a.es", "name": "1"}, {"source": "b.en", "target": "b.de"}], None),
    ],
)
def test_the_languages_of_a_text_are_those_that_all_its_corpora_say(corpora, languages, tmp_path):
    (tmp_path / "memory.tmx").write_text(TMX, encoding="utf-8")
    (tmp_path / "rows.tsv").write_text("one\teins\n", encoding="utf-8")
    run = make_run({"data": {"corpus": corpora}, "train": {"steps": 1}}, folder=tmp_path)
    found = find_languages(run.data)
    assert (tuple(found.values()) if found else None) == languages


def test_every_model_of_a_run_says_its_languages(tmp_path):
    run = small_run(tmp_path / "data")
    named = replace(run, data=replace(run.data, source_language="nl", target_language="fy"))
    train_run(named, tmp_path / "out")
    for name in ("best", "last", "average"):
        assert read_manifest(tmp_path / "out" / name)["languages"] == {"source": "nl", "target": "fy"}
    tables = {"data": vars(run.data), "model": {"start": str(tmp_path / "out" / "best")}, "train": {"steps": 1}}
    copy = small_run(tmp_path / "unnamed").data
    for side in ("source", "target", "dev_source", "dev_target"):
        old, new = Path(getattr(copy, side)), tmp_path / f"{side}.txt"
        old.rename(new)
        tables["data"] = {**tables["data"], side: str(new)}
    train_run(make_run({**tables, "data": {k: v for k, v in tables["data"].items() if v}}), tmp_path / "tuned")
    assert read_manifest(tmp_path / "tuned" / "best")["languages"] == {"source": "nl", "target": "fy"}
