"""A trace on disk: what was saved comes back, and what is not a trace is refused with one sentence."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pellucid import bundle
from pellucid.atomic import MANIFEST, write_manifest
from pellucid.trace import Hide, Silence, Trace
from tests.decode.models import small_tokenizer
from tests.trace.traced import ball, small_traced

FACTS, TENSORS = "trace.json", "tensors.safetensors"


@pytest.fixture
def place(tmp_path):
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


def test_the_page_of_a_loaded_trace_is_that_of_the_trace_without_weights(place):
    before, after = ball().manifest(), Trace.load(place).manifest()
    assert {key for key in before if before[key] != after[key]} == {"parameters", "checks"}
    assert [{**row, "captured": True} for row in after["parameters"]] == before["parameters"]
    assert not any(row["captured"] for row in after["parameters"])
    json.dumps(after, allow_nan=False)


def test_a_loaded_trace_cannot_be_run_again(place):
    loaded = Trace.load(place)
    assert loaded.model is loaded.tokenizer is None
    for ask in (lambda: loaded.edited(Hide(0)), lambda: loaded.again("Yes.")):
        with pytest.raises(ValueError, match="loaded from disk and has no model to run"):
            ask()
    with pytest.raises(ValueError, match="was not captured: a trace from disk has no weights"):
        loaded.parameter("decoder_norm.weight")
    with pytest.raises(ValueError, match="read-only"):
        loaded["logits"].values[0] = 0


def test_a_loaded_trace_can_be_saved_again(place, tmp_path):
    Trace.load(place).save(tmp_path / "again")
    for name in (FACTS, TENSORS):
        assert (tmp_path / "again" / name).read_bytes() == (place / name).read_bytes()


def test_a_trace_takes_the_place_of_a_trace_and_of_nothing_else(place, tmp_path):
    other = small_traced(max_positions=37).trace("Yes.", beam=1)
    other.save(place)
    assert Trace.load(place).id == other.id
    model = tmp_path / "model"
    bundle.save_bundle(model, small_traced().bundle.model, small_tokenizer())
    files = tmp_path / "files"
    files.mkdir()
    (files / "letter.txt").write_text("Dear", encoding="utf-8")
    for taken in (model, files):
        before = sorted(taken.iterdir())
        with pytest.raises(ValueError, match="holds other things than a trace and is not replaced"):
            other.save(taken)
        assert sorted(taken.iterdir()) == before
    with pytest.raises(ValueError, match="is a file; a trace needs a directory"):
        other.save(files / "letter.txt")


def test_nothing_is_left_where_saving_failed(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("pellucid.trace.storage.save_file", full)
    with pytest.raises(OSError, match="no space"):
        ball().save(tmp_path / "ball")
    assert not list(tmp_path.iterdir())


def test_what_is_no_trace_is_refused(tmp_path):
    model = tmp_path / "model"
    bundle.save_bundle(model, small_traced().bundle.model, small_tokenizer())
    (tmp_path / "file").write_text("", encoding="utf-8")
    for wrong in (tmp_path / "nothing", tmp_path, model, tmp_path / "file"):
        with pytest.raises(ValueError, match="is not a saved trace; that is a directory with"):
            Trace.load(wrong)
    ball().save(tmp_path / "ball")
    with pytest.raises(ValueError, match="is a saved trace, not a model"):  # and a trace is no model
        bundle.load_bundle(tmp_path / "ball")


@pytest.mark.parametrize("name", [FACTS, TENSORS, MANIFEST])
def test_a_file_that_was_changed_cut_or_lost_is_noticed(place, name):
    whole = (place / name).read_bytes()
    middle = len(whole) // 2
    for broken in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:middle], b""):
        (place / name).write_bytes(broken)
        refused(place, str(place))
    (place / name).unlink()
    refused(place, str(place))


def test_a_folder_that_another_replaced_half_way_is_found(place):
    """A crash between the two renames of a replacement leaves the new one beside."""
    place.rename(place.with_name(f".{place.name}.old"))
    assert Trace.load(place).id == ball().id


def change(place, path, value):
    """Write a value at a path of trace.json, and seal the directory anew, as a forger would."""
    said = json.loads((place / FACTS).read_text(encoding="utf-8"))
    table = said
    for key in path[:-1]:
        table = table[key]
    if value is DELETE:
        del table[path[-1]]
    else:
        table[path[-1]] = value(table[path[-1]]) if callable(value) else value
    (place / FACTS).write_text(json.dumps(said), encoding="utf-8")
    seal(place)


def seal(place):
    (place / MANIFEST).unlink()
    write_manifest(place, {"trace": 1})


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
    (("facts",), None, "facts is None, it must be an object"),
    (("facts", "steps"), DELETE, "facts: steps is missing"),
    (("facts", "more"), 1, "'more' is unknown"),
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
    (("facts", "inputs", "ids", 0), 4, "not the start mark"),
    (("facts", "inputs", "pieces"), [], "not the start mark"),
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
    (("facts", "edits"), [{"kind": "melt"}], "kind is 'melt'"),
    (("facts", "notes"), "a note", "facts.notes is 'a note'"),
    (("facts", "notes"), [None], "facts.notes[0] is None"),
    (("facts", "run", "search"), {"beam": [1]}, "facts.run.search.beam is [1]"),
    (("facts", "run", "dtype"), "float16", "expected None"),
    (("facts", "model", "parameters"), 2**60, "facts.model.parameters is"),
    (("facts", "model", "parameters"), 17, "the model has 17 parameters"),
]


@pytest.mark.parametrize(("path", "value", "message"), FORGED, ids=[f"{n} {f[0][-1]}" for n, f in enumerate(FORGED)])
def test_facts_that_cannot_be_are_refused(place, path, value, message):
    change(place, path, value)
    refused(place, message)


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
def test_tensors_that_are_not_of_this_trace_are_refused(place, forge, message):
    save_file(forge(load_file(place / TENSORS)), place / TENSORS)
    seal(place)
    refused(place, message)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 99, (2**60).to_bytes(8, "little") + b"{}", b"\x02" + b"\0" * 7 + b"{}"]
)
def test_what_is_no_safetensors_file_is_refused(place, content):
    (place / TENSORS).write_bytes(content)
    seal(place)
    if content.endswith(b"{}") and content[0] == 2:
        assert Trace.load(place).names == []  # a trace of which nothing was kept
    else:
        refused(place, "not a safetensors file")


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"trace": 1}', "null"])
def test_what_is_no_json_is_refused(place, content):
    (place / FACTS).write_text(content, encoding="utf-8")
    seal(place)
    refused(place, str(place / FACTS) if content != '{"trace": 1}' else "config: expected an object")


def test_a_number_that_is_none_can_be_saved_and_shown(tmp_path):
    """What a model computed is shown as it is: a tensor may hold infinite numbers, and no range is said of them."""
    values = {name: ball()[name].values.copy() for name in ball()}
    values["memory"][:] = np.inf
    values["encoder.0.self.scores"][0] = np.nan
    Trace(ball().facts, ball().config, values).save(tmp_path / "odd")
    manifest = Trace.load(tmp_path / "odd").manifest()
    json.dumps(manifest, allow_nan=False)
    [row] = [row for row in manifest["tensors"] if row["name"] == "memory"]
    assert "least" not in row


def refused(place, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        Trace.load(place)
    said = str(refusal.value)
    assert "\n" not in said
    assert "another model" not in said
    assert len(said) < 2000


def test_the_facts_are_what_the_manifest_says(place):
    said = json.loads((place / FACTS).read_text(encoding="utf-8"))
    assert said["facts"]["steps"] == ball().manifest()["steps"]
    assert said["config"] == asdict(ball().config)
