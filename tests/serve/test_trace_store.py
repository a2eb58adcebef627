import io
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pellucid.serve.limits import Limits
from pellucid.serve.trace_store import TraceStore
from pellucid.trace.page_api import perform_act
from tests.serve.servers import client, small_model
from tests.trace.traced import small_traced

SENTENCE = "The ball is blue."


@pytest.fixture(scope="module")
def server():
    with client() as found:
        yield found


@pytest.fixture(scope="module")
def traced(server):
    """The manifest, as the server sends it."""
    found = server.post("/trace", json={"sentence": SENTENCE})
    assert found.status_code == 200
    return found.json()


@pytest.fixture(scope="module")
def trace():
    return small_model().trace(SENTENCE)


def untimed(manifest) -> dict[str, object]:
    return {**manifest, "run": {**manifest["run"], "seconds": 0}}


def test_the_manifest_is_that_of_the_trace(server, traced, trace):
    assert untimed(traced) == untimed(json.loads(json.dumps(trace.manifest())))
    assert server.get(f"/trace/{traced['id']}/manifest.json").json() == traced


def test_every_number_arrives_as_it_was_captured(server, traced, trace):
    captured = [row for row in traced["tensors"] if row["captured"]]
    assert len(captured) > 20
    for row in captured:
        found = server.get(f"/trace/{traced['id']}/t/{row['name']}")
        values = np.frombuffer(found.content, "<f4").reshape(row["shape"])
        np.testing.assert_array_equal(values, trace[row["name"]].values.astype(np.float32))
        assert found.headers["X-Shape"] == ",".join(map(str, row["shape"]))


def test_weights_arrive_whole_and_row_by_row(server, traced, trace):
    for row in traced["parameters"]:
        weight = trace.parameter(row["name"])
        found = server.get(f"/trace/{traced['id']}/p/{row['name']}")
        np.testing.assert_array_equal(np.frombuffer(found.content, "<f4").reshape(row["shape"]), weight)
        found = server.get(f"/trace/{traced['id']}/p/{row['name']}?rows=1:3")
        np.testing.assert_array_equal(np.frombuffer(found.content, "<f4"), weight[1:3].ravel())


def test_a_long_name_is_not_repeated_whole(server, traced):
    for kind in ("t", "p"):
        found = server.get(f"/trace/{traced['id']}/{kind}/{'x' * 4000}")
        assert found.status_code == 404
        assert len(found.text) < 200


@pytest.mark.parametrize(
    "rows", ["0:999", "3:1", "-1:2", ":", "1", "a:b", "1:2:3", "٣:٤", "0x0:1", "9999999999:9999999999"]
)
def test_rows_that_are_none_are_refused(server, traced, rows: str):
    found = server.get(f"/trace/{traced['id']}/t/decoder.0.cross.pattern", params={"rows": rows})
    assert found.status_code == 422
    assert "rows" in found.json()["error"]


def test_more_numbers_than_are_sent_at_a_time_are_sent_by_rows(server, traced, trace, monkeypatch):
    monkeypatch.setattr("pellucid.serve.trace_routes.MOST_BYTES", 100)
    path = f"/trace/{traced['id']}/p/source_embedding.weight"
    assert "rows=a:b" in server.get(path).json()["error"]
    assert server.get(path).status_code == 413
    found = server.get(path, params={"rows": "4:8"})
    np.testing.assert_array_equal(
        np.frombuffer(found.content, "<f4"), trace.parameter("source_embedding.weight")[4:8].ravel()
    )


@pytest.mark.parametrize(
    "path",
    [
        "t/decoder.0.cros.pattern",
        "t/..%2F..%2Fetc%2Fpasswd",
        "t/__class__",
        "p/encoder.0.self.training",
        "p/encoder",
        "p/nothing.weight",
        "q/decoder.0.cross.pattern",
    ],
)
def test_what_is_not_there_is_not_found(server, traced, path: str):
    found = server.get(f"/trace/{traced['id']}/{path}")
    assert (found.status_code, list(found.json())) == (404, ["error"])


@pytest.mark.parametrize("path", ["manifest.json", "t/x", "p/x", "export.html", "tensors.npz"])
def test_a_trace_that_is_not_here_is_not_found(server, path: str):
    found = server.get(f"/trace/0123456789ab/{path}")
    assert found.status_code == 404
    assert "ask for it again" in found.json()["error"]


def test_an_account_and_a_verdict_are_those_of_the_trace(server, traced, trace):
    piece = trace.steps[1].top[1].id
    found = server.post(f"/trace/{traced['id']}/account", json={"step": 1, "piece": piece, "other": 9})
    assert found.json() == json.loads(json.dumps(trace.account(1, piece, 9).as_json()))
    found = server.post(f"/trace/{traced['id']}/verdict", json={"reference": "La bola es azul."})
    assert found.json() == json.loads(json.dumps(trace.verdict("La bola es azul.").as_json()))


def test_an_edit_gives_another_trace_that_is_kept_too(server, traced):
    edits = [{"kind": "silence", "attention": "decoder.0.cross", "head": 1}]
    found = server.post(f"/trace/{traced['id']}/edit", json={"edits": edits, "keep_target": True}).json()
    assert found["edits"] == edits
    assert found["id"] != traced["id"]
    output = server.get(f"/trace/{found['id']}/t/decoder.0.cross.head_output")
    assert not np.frombuffer(output.content, "<f4").reshape(2, -1)[1].any()
    assert server.get(f"/trace/{traced['id']}/manifest.json").json() == traced


def test_a_given_target_is_read(server):
    found = server.post("/trace", json={"sentence": SENTENCE, "target": "La bola es azul."}).json()
    assert found["forced"] is True
    assert found["target"]["text"] == "La bola es azul."


def test_a_trace_begins_with_the_pieces_that_were_asked_for(server, traced):
    node = next(each for each in traced["tree"]["nodes"] if each["step"] == 0 and not each["best"])
    found = server.post("/trace", json={"sentence": SENTENCE, "prefix_ids": [node["piece_id"]]}).json()
    assert found["target"]["ids"][0] == node["piece_id"]
    assert found["id"] != traced["id"]


def test_every_hypothesis_of_a_beam_opens_as_a_trace_of_just_it():
    with client(small_traced()) as server:
        nodes = server.post("/trace", json={"sentence": SENTENCE, "beam": 3}).json()["tree"]["nodes"]
        assert {node["fate"] for node in nodes} == {"kept", "pruned", "finished"}
        for node in nodes:
            ids, at = [], node
            while at is not None:
                ids.insert(0, at["piece_id"])
                at = None if at["parent"] is None else nodes[at["parent"]]
            found = server.post("/trace", json={"sentence": SENTENCE, "target_ids": ids})
            assert found.status_code == 200, found.text
            assert found.json()["target"]["ids"] == ids
            assert found.json()["score"] == pytest.approx(node["score"], abs=1e-4)


def test_one_question_gives_the_trace_that_was_edited(server, traced):
    edits = [{"kind": "hide", "word": 1}]
    for keep in (True, False):
        edited = server.post(f"/trace/{traced['id']}/edit", json={"edits": edits, "keep_target": keep}).json()
        ids = traced["target"]["ids"] if keep else None
        again = server.post("/trace", json={"sentence": SENTENCE, "target_ids": ids, "edits": edits}).json()
        assert (again["id"], again["target"]) == (edited["id"], edited["target"])


def test_what_is_meant_for_another_model_is_refused_by_its_name(server, traced):
    sha = traced["model"]["sha256"]
    assert server.post("/trace", json={"sentence": SENTENCE, "model": sha[:12]}).json()["id"] == traced["id"]
    found = server.post("/trace", json={"sentence": SENTENCE, "model": "0123456789ab"})
    assert found.status_code == 409
    assert "0123456789ab" in found.json()["error"]
    assert traced["model"]["name"] in found.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sentence": "Yes.", "target_ids": []},
        {"sentence": "Yes.", "target_ids": [3, 9]},
        {"sentence": "Yes.", "target_ids": [9], "target": "No."},
        {"sentence": "Yes.", "target_ids": [9], "prefix_ids": [9]},
        {"sentence": "Yes.", "edits": [{"kind": "hide", "word": 99}]},
        {"sentence": "Yes.", "edits": [{"kind": "wish"}]},
        {"sentence": "Yes.", "model": "<b>"},
        {"sentence": 5},
        {"sentence": " "},
        {"sentence": "a " * 300},
        {"sentence": "Yes.", "beam": 0},
        {"sentence": "Yes.", "beam": True},
        {"sentence": "Yes.", "prefix_ids": [-1]},
        {"sentence": "Yes.", "prefix_ids": [10**30]},
        {"sentence": "Yes.", "prefix_ids": [9] * 500},
        {"sentence": "Yes.", "prefix_ids": [2]},
        {"sentence": "Yes.", "prefix_ids": [9], "target": "No."},
        {"sentence": "Yes.", "target": "no " * 300},
    ],
)
def test_what_cannot_be_traced_is_refused_with_a_sentence(server, body):
    found = server.post("/trace", json=body)
    assert (found.status_code, list(found.json())) == (422, ["error"])


def test_everything_can_be_taken_away(server, traced, trace):
    found = server.get(f"/trace/{traced['id']}/tensors.npz")
    assert "attachment" in found.headers["Content-Disposition"]
    arrays = np.load(io.BytesIO(found.content))
    assert set(arrays) == set(trace.names)
    np.testing.assert_array_equal(arrays["decoder.0.cross.pattern"], trace["decoder.0.cross.pattern"].values)


def test_the_file_is_for_saving_and_never_shown_here(server, traced, monkeypatch):
    for module in ("page.html", "serve.page_routes"):
        monkeypatch.setattr(f"pellucid.{module}.read_script", lambda: "/* the page */")
    found = server.get(f"/trace/{traced['id']}/export.html", params={"keep": "maps"})
    assert found.status_code == 200
    assert found.headers["Content-Disposition"].startswith("attachment")
    assert traced["id"] in found.text
    assert server.get(f"/trace/{traced['id']}/export.html", params={"keep": "all"}).status_code == 422


def test_traces_asked_for_at_once_are_each_ones_own(server):
    sentences = ["Yes.", "Where is the house?", "The ball is blue.", "El gato negro."]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: server.post("/trace", json={"sentence": each}).json(), sentences))
    assert [each["source"]["text"] for each in found] == sentences


class Stored:
    """What the store needs of a trace."""

    def __init__(self, name: str, size: int = 10):
        self.name, self.size = name, size

    def manifest(self):
        return {"id": self.name, "run": {"bytes": self.size}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kept(traces: TraceStore, names: str) -> str:
    return "".join(name for name in names if name in traces._traces)


def store(traces: TraceStore, *stored: Stored) -> None:
    for each in stored:
        traces.store(each)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("words", {"side": "source"}),
        ("neighbours", {"side": "target", "piece": 5}),
        ("similar", {"side": "source", "words": ["ball", "blue"]}),
        ("analogy", {"side": "source", "question": "king - man + woman"}),
        ("masking", {}),
        ("heads", {}),
    ],
)
def test_what_is_asked_of_the_model_is_answered_as_python_answers_it(server, traced, trace, verb, arguments):
    found = server.post(f"/trace/{traced['id']}/{verb}", json=arguments)
    assert found.status_code == 200
    assert found.json() == perform_act(trace, verb, arguments)


def test_what_the_model_cannot_be_asked_is_refused_with_the_reason(server, traced):
    found = server.post(f"/trace/{traced['id']}/words", json={"side": "left"})
    assert (found.status_code, found.json()["error"][:15]) == (422, "side is 'left';")
    found = server.post(f"/trace/{traced['id']}/identity", json={"sentence": "a" * 100_000})
    assert found.status_code == 413
    assert server.post("/trace/none/masking", json={}).status_code == 404


def test_the_one_not_looked_at_for_longest_goes_first():
    traces = TraceStore(Limits(traces=3))
    store(traces, *map(Stored, "abc"))
    assert traces.get("a")
    store(traces, Stored("d"))
    assert kept(traces, "abcd") == "acd"
    assert traces.get("b") is None


def test_traces_are_kept_by_their_bytes():
    traces = TraceStore(Limits(trace_bytes=1000))
    store(traces, Stored("a", 400), Stored("b", 400), Stored("c", 300))
    assert kept(traces, "abc") == "bc"
    assert 700 < traces.bytes <= 1000
    with pytest.raises(ValueError, match=r"takes 1,\d+ bytes, this server keeps 1,000"):
        store(traces, Stored("d", 1000))
    assert kept(traces, "abcd") == "bc"


def test_a_trace_that_nobody_looks_at_is_forgotten():
    clock = Clock()
    traces = TraceStore(Limits(trace_minutes=1), clock)
    store(traces, Stored("a"), Stored("b"))
    clock.now = 40.0
    assert traces.get("a")
    clock.now = 70.0
    assert (traces.get("b"), bool(traces.get("a"))) == (None, True)
    clock.now = 200.0
    assert traces.get("a") is None
    assert (len(traces), traces.bytes) == (0, 0)


def test_the_same_trace_again_takes_the_place_of_the_first():
    traces = TraceStore(Limits())
    store(traces, Stored("a", 10), Stored("a", 10))
    assert len(traces) == 1
