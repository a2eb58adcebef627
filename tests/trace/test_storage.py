"""A saved trace is loaded unchanged, and anything that is not a trace is refused with one sentence."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pellucid.store.atomic import MANIFEST, write_manifest
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.trace import Hide, Silence, Trace
from tests.decode.models import small_tokenizer
from tests.trace.traced import ball, small_traced

FACTS, TENSORS = "trace.json", "tensors.safetensors"


@pytest.fixture
def directory(tmp_path):
    ball().save(tmp_path / "ball")
    return tmp_path / "ball"


def traces():
    model = small_traced(max_positions=37)
    yield ball()
    yield model.trace("Yes.", beam=1)
    yield model.trace("  The <b>ball</b> is  blue. 😀", target="¿Dónde está </script>?")
    yield model.trace("a 犬", beam=2, keep="*.cross.pattern")
    yield ball().edited(Hide(1), Silence("decoder.1.cross", 2))
    yield small_traced(double=True).trace("?", beam=2)
    yield small_traced(positions="rotary", activation="swiglu", norm="post", tie="all").trace("?", target="No.")


def test_what_was_saved_is_loaded(tmp_path):
    for number, trace in enumerate(traces()):
        trace.save(tmp_path / str(number))
        loaded = Trace.load(tmp_path / str(number))
        assert loaded.facts == trace.facts
        assert loaded.translation == trace.translation
        assert loaded.config == trace.config
        assert loaded.names == trace.names
        assert loaded.replaced == trace.replaced
        for name in trace:
            assert loaded[name].values.dtype == trace[name].values.dtype
            assert np.array_equal(loaded[name].values, trace[name].values)
            assert (loaded[name].dims, loaded[name].labels) == (trace[name].dims, trace[name].labels)


def test_the_page_of_a_loaded_trace_is_that_of_the_trace_without_weights(directory):
    before, after = ball().manifest(), Trace.load(directory).manifest()
    assert {key for key in before if before[key] != after[key]} == {"parameters", "checks"}
    assert [{**row, "captured": True} for row in after["parameters"]] == before["parameters"]
    assert not any(row["captured"] for row in after["parameters"])
    json.dumps(after, allow_nan=False)


def test_a_loaded_trace_cannot_be_run_again(directory):
    loaded = Trace.load(directory)
    assert loaded.model is loaded.tokenizer is None
    for ask in (lambda: loaded.edited(Hide(0)), lambda: loaded.again("Yes.")):
        with pytest.raises(ValueError, match="loaded from disk and has no model to run"):
            ask()
    with pytest.raises(ValueError, match="was not captured: a trace from disk has no weights"):
        loaded.parameter("decoder_norm.weight")
    with pytest.raises(ValueError, match="read-only"):
        loaded["logits"].values[0] = 0


def test_a_loaded_trace_can_be_saved_again(directory, tmp_path):
    Trace.load(directory).save(tmp_path / "again")
    for name in (FACTS, TENSORS):
        assert (tmp_path / "again" / name).read_bytes() == (directory / name).read_bytes()


def test_saving_replaces_another_trace_and_nothing_else(directory, tmp_path):
    other = small_traced(max_positions=37).trace("Yes.", beam=1)
    other.save(directory)
    assert Trace.load(directory).id == other.id
    model = tmp_path / "model"
    save_bundle(model, small_traced().bundle.model, small_tokenizer())
    files = tmp_path / "files"
    files.mkdir()
    (files / "letter.txt").write_text("Dear", encoding="utf-8")
    for occupied in (model, files):
        before = sorted(occupied.iterdir())
        with pytest.raises(ValueError, match="holds other things than a trace and is not replaced"):
            other.save(occupied)
        assert sorted(occupied.iterdir()) == before
    with pytest.raises(ValueError, match="is a file; a trace needs a directory"):
        other.save(files / "letter.txt")


def test_a_failed_save_leaves_nothing_behind(tmp_path, monkeypatch):
    def raise_disk_full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("pellucid.trace.storage.save_file", raise_disk_full)
    with pytest.raises(OSError, match="no space"):
        ball().save(tmp_path / "ball")
    assert not list(tmp_path.iterdir())


def test_directories_that_are_not_traces_are_refused(tmp_path):
    model = tmp_path / "model"
    save_bundle(model, small_traced().bundle.model, small_tokenizer())
    (tmp_path / "file").write_text("", encoding="utf-8")
    for wrong in (tmp_path / "nothing", tmp_path, model, tmp_path / "file"):
        with pytest.raises(ValueError, match="is not a saved trace; that is a directory with"):
            Trace.load(wrong)
    ball().save(tmp_path / "ball")
    with pytest.raises(ValueError, match="is a saved trace, not a model"):  # and a trace is no model
        load_bundle(tmp_path / "ball")


@pytest.mark.parametrize("name", [FACTS, TENSORS, MANIFEST])
def test_a_changed_truncated_or_missing_file_is_noticed(directory, name):
    whole = (directory / name).read_bytes()
    middle = len(whole) // 2
    for broken in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:middle], b""):
        (directory / name).write_bytes(broken)
        assert_refused(directory, str(directory))
    (directory / name).unlink()
    assert_refused(directory, str(directory))


def test_a_trace_is_loaded_after_a_crash_while_it_was_replaced(directory):
    """A crash between the two renames of a replacement leaves the trace beside its place."""
    directory.rename(directory.with_name(f".{directory.name}.old"))
    assert Trace.load(directory).id == ball().id


def change_facts(directory, path, value):
    """Write a value at a path of trace.json and renew the manifest, as a forger would."""
    facts = json.loads((directory / FACTS).read_text(encoding="utf-8"))
    table = facts
    for key in path[:-1]:
        table = table[key]
    if value is DELETE:
        del table[path[-1]]
    else:
        table[path[-1]] = value(table[path[-1]]) if callable(value) else value
    (directory / FACTS).write_text(json.dumps(facts), encoding="utf-8")
    write_new_manifest(directory)


def write_new_manifest(directory):
    (directory / MANIFEST).unlink()
    write_manifest(directory, {"trace": 1})


DELETE = object()
FORGED = [
    (("trace",), 2, "is of version 2, this program reads 1"),
    (("config", "heads"), 5, "d_model 12 cannot be split into 5 heads"),
    (("config", "d_model"), 3 * 2**70, "which it cannot be"),
    (("config", "decoder_layers"), 10**9, "more than 200 layers"),
    (("config", "decoder_layers"), 4, "its config makes"),
    (("config", "d_ff"), 13, "its config makes"),
    (("config", "heads"), 2, "not of one trace"),
    (("config", "d_ff"), "13", "d_ff is '13', which it cannot be"),
    (("config", "norm"), "sideways", "norm is 'sideways'"),
    (("config",), [], "config: expected an object"),
    (("facts",), None, "facts is None; it should be an object"),
    (("facts", "steps"), DELETE, "facts.steps is missing"),
    (("facts", "more"), 1, "facts.more is unknown"),
    (("facts", "id"), "../../etc", "the id is '../../etc'"),
    (("facts", "stop"), "maybe", "facts.stop is 'maybe'"),
    (("facts", "forced"), 1, "facts.forced is 1"),
    (("facts", "score"), "high", "facts.score is 'high'"),
    (("facts", "score"), float("nan"), "facts.score is nan"),
    (("facts", "score"), 1e999, "facts.score is inf"),
    (("facts", "source", "ids", 0), 10**6, "ids beyond its vocabulary"),
    (("facts", "source", "ids", 0), -1, "ids beyond its vocabulary"),
    (("facts", "source", "ids", 0), 1.5, "facts.source.ids[0] is 1.5"),
    (("facts", "source", "ids", 0), True, "facts.source.ids[0] is True"),
    (("facts", "source", "pieces"), lambda pieces: pieces[1:], "another number of pieces"),
    (("facts", "source", "words", 0), 99, "words beyond its 4"),
    (("facts", "source", "unknown"), [], "another number of pieces"),
    (("facts", "target", "ids"), [], "the target has 0 pieces"),
    (("facts", "target", "text"), "x" * 200_000, "facts.target.text is"),
    (("facts", "inputs", "ids", 0), 4, "not BOS, the start token"),
    (("facts", "inputs", "pieces"), [], "not BOS, the start token"),
    (("facts", "steps", 0, "step"), 3, "steps are not those"),
    (("facts", "steps"), lambda steps: steps[1:], "steps are not those"),
    (("facts", "steps", 0, "chosen", "id"), 9, "chosen by the steps are not those written"),
    (("facts", "steps", 0, "top", 3, "id"), 10**9, "candidates beyond the vocabulary"),
    (("facts", "piece_log_probs"), [], "0 log-probabilities"),
    (("facts", "tree", "nodes", 5, "parent"), 5, "not one step after their parents"),
    (("facts", "tree", "nodes", 40, "parent"), 0, "not one step after their parents"),
    (("facts", "tree", "nodes", 5, "parent"), -7, "not one step after their parents"),
    (("facts", "tree", "nodes", 5, "parent"), 10**6, "not one step after their parents"),
    (("facts", "tree", "nodes", 5, "id"), 6, "not numbered in order"),
    (("facts", "tree", "nodes", 5, "piece_id"), 10**9, "pieces beyond the vocabulary"),
    (("facts", "tree", "nodes", 5, "fate"), "lost", "fate is 'lost'"),
    (("facts", "edits"), [{"kind": "hide", "word": 77}], "word 77 is not in the sentence"),
    (("facts", "edits"), [{"kind": "melt"}], "facts.edits[0] is {'kind': 'melt'}"),
    (("facts", "notes"), "a note", "facts.notes is 'a note'"),
    (("facts", "notes"), [None], "facts.notes[0] is None"),
    (("facts", "run", "search"), {"beam": [1]}, "facts.run.search.beam.int is [1]"),
    (("facts", "run", "dtype"), "float16", "expected None"),
    (("facts", "model", "parameters"), 2**60, "facts holds a whole number of 61 bits"),
    (("facts", "model", "parameters"), 17, "the model has 17 parameters"),
]


@pytest.mark.parametrize(("path", "value", "message"), FORGED, ids=[f"{n} {f[0][-1]}" for n, f in enumerate(FORGED)])
def test_forged_facts_are_refused(directory, path, value, message):
    change_facts(directory, path, value)
    assert_refused(directory, message)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda t: {**t, "memory": t["memory"][1:]}, "memory is F32 [13, 12], expected F32 [14, 12]"),
        (lambda t: {**t, "memory": t["memory"].T.copy()}, "memory is F32 [12, 14]"),
        (lambda t: {**t, "memory": t["memory"].astype(np.float64)}, "memory is F64"),
        (lambda t: {**t, "encoder.0.self.allowed": t["encoder.0.self.allowed"].astype(np.float32)}, "expected BOOL"),
        (lambda t: {**t, "encoder.9.self.q": t["encoder.0.self.q"]}, "'encoder.9.self.q' is no tensor of this model"),
        (lambda t: {**t, "../escape": np.zeros(1)}, "'../escape' is no tensor"),
    ],
    ids=["shorter", "turned", "double", "number", "layer", "name"],
)
def test_tensors_that_are_not_of_this_trace_are_refused(directory, forge, message):
    save_file(forge(load_file(directory / TENSORS)), directory / TENSORS)
    write_new_manifest(directory)
    assert_refused(directory, message)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 99, (2**60).to_bytes(8, "little") + b"{}", b"\x02" + b"\0" * 7 + b"{}"]
)
def test_a_malformed_safetensors_file_is_refused(directory, content):
    (directory / TENSORS).write_bytes(content)
    write_new_manifest(directory)
    if content.endswith(b"{}") and content[0] == 2:
        assert Trace.load(directory).names == []  # a trace of which nothing was kept
    else:
        assert_refused(directory, "not a safetensors file")


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"trace": 1}', "null"])
def test_malformed_json_is_refused(directory, content):
    (directory / FACTS).write_text(content, encoding="utf-8")
    write_new_manifest(directory)
    assert_refused(directory, str(directory / FACTS) if content != '{"trace": 1}' else "config: expected an object")


def test_infinities_and_nan_can_be_saved_and_shown(tmp_path):
    """A tensor may hold infinite numbers; the manifest then gives no range for it."""
    values = {name: ball()[name].values.copy() for name in ball()}
    values["memory"][:] = np.inf
    values["encoder.0.self.scores"][0] = np.nan
    Trace(ball().facts, ball().config, values).save(tmp_path / "odd")
    manifest = Trace.load(tmp_path / "odd").manifest()
    json.dumps(manifest, allow_nan=False)
    [row] = [row for row in manifest["tensors"] if row["name"] == "memory"]
    assert "least" not in row


def assert_refused(directory, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)) as caught:
        Trace.load(directory)
    message = str(caught.value)
    assert "\n" not in message
    assert "another model" not in message
    assert len(message) < 2000


def test_the_saved_facts_are_those_of_the_manifest(directory):
    saved = json.loads((directory / FACTS).read_text(encoding="utf-8"))
    assert saved["facts"]["steps"] == ball().manifest()["steps"]
    assert saved["config"] == asdict(ball().config)
