import io
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from pellucid.interpret.trace.session import perform_act
from pellucid.serve.service import MODELS_OF_TRACES, TraceStore
from pellucid.serve.settings import Limits
from tests.serve.servers import client, small_model
from tests.tolerances import approx_log_prob
from tests.trace.traced import small_traced

SENTENCE = "The ball is blue."


@pytest.fixture(scope="module")
def server():
    with client() as response:
        yield response


@pytest.fixture(scope="module")
def traced(server):
    """Return the manifest that the server sends."""
    response = server.post("/trace", json={"sentence": SENTENCE})
    assert response.status_code == 200
    return response.json()


@pytest.fixture(scope="module")
def trace():
    return small_model().trace(SENTENCE)


def without_seconds(manifest) -> dict[str, object]:
    return {**manifest, "run": {**manifest["run"], "seconds": 0}}


def test_the_manifest_is_that_of_the_trace(server, traced, trace):
    assert without_seconds(traced) == without_seconds(json.loads(json.dumps(trace.manifest(checked=False))))
    checks = server.post(f"/trace/{traced['id']}/checks", json={}).json()["checks"]
    assert [check["name"] for check in checks] == [check.name for check in trace.checks()]
    assert all(check["passed"] for check in checks)
    assert server.get(f"/trace/{traced['id']}/manifest.json").json() == traced


def test_each_part_of_a_text_is_traced(server):
    for number in (1, 2):
        asked = {"sentence": f"{SENTENCE} Yes.", "segment": number}
        manifest = server.post("/trace", json=asked).json()
        assert manifest["part"]["segment"] == number
        assert manifest["source"]["text"] == (SENTENCE, "Yes.")[number - 1]
    assert server.post("/trace", json={"sentence": SENTENCE, "segment": 0}).status_code == 422
    refused = server.post("/trace", json={"sentence": SENTENCE, "segment": 2})
    assert refused.status_code == 422
    assert "segment is 2, and the line has no such part; it is one" in refused.json()["error"]


def test_every_number_arrives_as_it_was_captured(server, traced, trace):
    captured = [row for row in traced["tensors"] if row["captured"]]
    assert len(captured) > 20
    for row in captured:
        response = server.get(f"/trace/{traced['id']}/t/{row['name']}")
        values = np.frombuffer(response.content, "<f4").reshape(row["shape"])
        np.testing.assert_array_equal(values, trace[row["name"]].values.astype(np.float32))
        assert response.headers["X-Shape"] == ",".join(map(str, row["shape"]))


def test_several_tensors_arrive_in_one_answer(server, traced, trace):
    names = [row["name"] for row in traced["tensors"] if row["captured"]]
    response = server.get(f"/trace/{traced['id']}/tensors", params={"name": names})
    expected = np.concatenate([trace[name].values.astype(np.float32).ravel() for name in names])
    np.testing.assert_array_equal(np.frombuffer(response.content, "<f4"), expected)
    shapes = [tuple(map(int, filter(None, shape.split(",")))) for shape in response.headers["X-Shape"].split(";")]
    assert shapes == [trace[name].values.shape for name in names]
    assert server.get(f"/trace/{traced['id']}/tensors", params={"name": [names[0], "none"]}).status_code == 404
    assert server.get(f"/trace/{traced['id']}/tensors").status_code == 422


def test_weights_arrive_whole_and_row_by_row(server, traced, trace):
    for row in traced["parameters"]:
        weight = trace.parameter(row["name"])
        response = server.get(f"/trace/{traced['id']}/p/{row['name']}")
        np.testing.assert_array_equal(np.frombuffer(response.content, "<f4").reshape(row["shape"]), weight)
        response = server.get(f"/trace/{traced['id']}/p/{row['name']}?rows=1:3")
        np.testing.assert_array_equal(np.frombuffer(response.content, "<f4"), weight[1:3].ravel())


def test_a_long_name_is_cut_in_the_message(server, traced):
    for kind in ("t", "p"):
        response = server.get(f"/trace/{traced['id']}/{kind}/{'x' * 4000}")
        assert response.status_code == 404
        assert len(response.text) < 200


@pytest.mark.parametrize(
    "rows", ["0:999", "3:1", "-1:2", ":", "1", "a:b", "1:2:3", "٣:٤", "0x0:1", "9999999999:9999999999"]
)
def test_invalid_rows_are_refused(server, traced, rows: str):
    response = server.get(f"/trace/{traced['id']}/t/decoder.0.cross.pattern", params={"rows": rows})
    assert response.status_code == 422
    assert "rows" in response.json()["error"]


def test_large_arrays_are_sent_by_rows(server, traced, trace, monkeypatch):
    monkeypatch.setattr("pellucid.serve.trace_routes.MOST_BYTES", 100)
    path = f"/trace/{traced['id']}/p/source_embedding.weight"
    assert "rows=a:b" in server.get(path).json()["error"]
    assert server.get(path).status_code == 413
    response = server.get(path, params={"rows": "4:8"})
    np.testing.assert_array_equal(
        np.frombuffer(response.content, "<f4"), trace.parameter("source_embedding.weight")[4:8].ravel()
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
def test_unknown_tensors_and_paths_are_not_found(server, traced, path: str):
    response = server.get(f"/trace/{traced['id']}/{path}")
    assert (response.status_code, list(response.json())) == (404, ["error"])


@pytest.mark.parametrize("path", ["manifest.json", "t/x", "p/x", "export.html", "tensors.npz"])
def test_an_unknown_trace_is_not_found(server, path: str):
    response = server.get(f"/trace/0123456789ab/{path}")
    assert response.status_code == 404
    assert "ask for it again" in response.json()["error"]


def test_an_account_and_a_verdict_are_those_of_the_trace(server, traced, trace):
    piece = trace.steps[1].top[1].id
    response = server.post(f"/trace/{traced['id']}/account", json={"step": 1, "piece": piece, "other": 9})
    assert response.json() == json.loads(json.dumps(trace.account(1, piece, 9).as_json()))
    response = server.post(f"/trace/{traced['id']}/verdict", json={"reference": "La bola es azul."})
    assert response.json() == json.loads(json.dumps(trace.verdict("La bola es azul.").as_json()))


def test_an_edit_gives_another_stored_trace(server, traced):
    edits = [{"kind": "silence", "attention": "decoder.0.cross", "head": 1}]
    response = server.post(f"/trace/{traced['id']}/edit", json={"edits": edits, "keep_target": True}).json()
    assert response["edits"] == edits
    assert response["id"] != traced["id"]
    output = server.get(f"/trace/{response['id']}/t/decoder.0.cross.head_output")
    assert not np.frombuffer(output.content, "<f4").reshape(2, -1)[1].any()
    assert server.get(f"/trace/{traced['id']}/manifest.json").json() == traced


def test_a_given_target_is_read(server):
    response = server.post("/trace", json={"sentence": SENTENCE, "target": "La bola es azul."}).json()
    assert response["forced"] is True
    assert response["target"]["text"] == "La bola es azul."


def test_a_trace_begins_with_the_given_prefix(server, traced):
    node = next(candidate for candidate in traced["tree"]["nodes"] if candidate["step"] == 0 and not candidate["best"])
    response = server.post("/trace", json={"sentence": SENTENCE, "prefix_ids": [node["piece_id"]]}).json()
    assert response["target"]["ids"][0] == node["piece_id"]
    assert response["id"] != traced["id"]


def test_every_hypothesis_of_a_beam_opens_as_its_own_trace():
    with client(small_traced(encoder_layers=1, decoder_layers=1)) as server:
        nodes = server.post("/trace", json={"sentence": SENTENCE, "beam": 2}).json()["tree"]["nodes"]
        assert {node["fate"] for node in nodes} == {"kept", "pruned", "finished"}
        for node in nodes:
            ids, ancestor = [], node
            while ancestor is not None:
                ids.insert(0, ancestor["piece_id"])
                ancestor = None if ancestor["parent"] is None else nodes[ancestor["parent"]]
            response = server.post("/trace", json={"sentence": SENTENCE, "target_ids": ids})
            assert response.status_code == 200, response.text
            assert response.json()["target"]["ids"] == ids
            assert response.json()["score"] == approx_log_prob(node["score"])


def test_edits_may_be_given_with_the_sentence(server, traced):
    edits = [{"kind": "hide", "word": 1}]
    for keep in (True, False):
        edited = server.post(f"/trace/{traced['id']}/edit", json={"edits": edits, "keep_target": keep}).json()
        ids = traced["target"]["ids"] if keep else None
        again = server.post("/trace", json={"sentence": SENTENCE, "target_ids": ids, "edits": edits}).json()
        assert (again["id"], again["target"]) == (edited["id"], edited["target"])


def test_a_request_for_another_model_is_refused(server, traced):
    sha = traced["model"]["sha256"]
    assert server.post("/trace", json={"sentence": SENTENCE, "model": sha[:12]}).json()["id"] == traced["id"]
    response = server.post("/trace", json={"sentence": SENTENCE, "model": "0123456789ab"})
    assert response.status_code == 409
    assert "0123456789ab" in response.json()["error"]
    assert traced["model"]["name"] in response.json()["error"]


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
        {"sentence": "a " * 300, "target": "No."},
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
def test_an_impossible_trace_is_refused_with_a_sentence(server, body):
    response = server.post("/trace", json=body)
    assert (response.status_code, list(response.json())) == (422, ["error"])


def test_all_tensors_can_be_downloaded(server, traced, trace):
    response = server.get(f"/trace/{traced['id']}/tensors.npz")
    assert "attachment" in response.headers["Content-Disposition"]
    arrays = np.load(io.BytesIO(response.content))
    assert set(arrays) == set(trace.names)
    np.testing.assert_array_equal(arrays["decoder.0.cross.pattern"], trace["decoder.0.cross.pattern"].values)


def test_the_exported_file_is_an_attachment(server, traced, monkeypatch):
    for module in ("interpret.page.html_file", "serve.trace_routes"):
        monkeypatch.setattr(f"pellucid.{module}.read_script", lambda: "/* the page */")
    response = server.get(f"/trace/{traced['id']}/export.html", params={"keep": "maps"})
    assert response.status_code == 200
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert traced["id"] in response.text
    assert server.get(f"/trace/{traced['id']}/export.html", params={"keep": "all"}).status_code == 422


def test_traces_requested_at_once_are_not_mixed_up(server):
    sentences = ["Yes.", "Where is the house?", "The ball is blue.", "El gato negro."]
    with ThreadPoolExecutor(4) as pool:
        manifests = list(
            pool.map(lambda sentence: server.post("/trace", json={"sentence": sentence}).json(), sentences)
        )
    assert [manifest["source"]["text"] for manifest in manifests] == sentences


class FakeTrace:
    """The parts of a trace that the store needs."""

    def __init__(self, name: str, size: int = 10, bundle: object = None):
        self.name, self.size, self.origin = name, size, SimpleNamespace(bundle=bundle)

    def manifest(self, checked: bool):
        return {"id": self.name, "run": {"bytes": self.size}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stored_names(traces: TraceStore, names: str) -> str:
    return "".join(name for name in names if name in traces._entries)


def store_all(traces: TraceStore, *fakes: FakeTrace) -> None:
    for fake in fakes:
        traces.store(fake)  # pyright: ignore[reportArgumentType]


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
def test_acts_on_the_model_are_answered_as_in_python(server, traced, trace, verb, arguments):
    response = server.post(f"/trace/{traced['id']}/{verb}", json=arguments)
    assert response.status_code == 200
    assert response.json() == perform_act(trace, verb, arguments)


def test_training_text_is_not_shown_to_everybody(server, traced, trace):
    """A server that is given no training text, because other machines reach it, answers no question about it."""
    address, question = f"/trace/{traced['id']}/influence", {"word": "any"}
    refused = server.post(address, json=question)
    assert refused.status_code == 403
    assert refused.json()["error"].startswith("other machines can reach this server, so it shows no training text;")
    server.app.state.service.shows_training_text = True
    try:  # of a model whose training text is not remembered
        assert server.post(address, json=question).json() == perform_act(trace, "influence", question)
    finally:
        server.app.state.service.shows_training_text = False


def test_impossible_acts_are_refused_with_a_reason(server, traced):
    response = server.post(f"/trace/{traced['id']}/words", json={"side": "left"})
    assert (response.status_code, response.json()["error"][:15]) == (422, "side is 'left';")
    response = server.post(f"/trace/{traced['id']}/identity", json={"sentence": "a" * 100_000})
    assert response.status_code == 413
    assert server.post("/trace/none/masking", json={}).status_code == 404


def test_the_trace_not_looked_at_for_longest_goes_first():
    traces = TraceStore(Limits(traces=3))
    store_all(traces, *map(FakeTrace, "abc"))
    assert traces.get("a")
    store_all(traces, FakeTrace("d"))
    assert stored_names(traces, "abcd") == "acd"
    assert traces.get("b") is None


def test_traces_are_limited_by_their_bytes():
    traces = TraceStore(Limits(trace_bytes=1000))
    store_all(traces, FakeTrace("a", 400), FakeTrace("b", 400), FakeTrace("c", 300))
    assert stored_names(traces, "abc") == "bc"
    assert 700 < traces.bytes <= 1000
    with pytest.raises(ValueError, match=r"takes 1,\d+ bytes, this server keeps 1,000"):
        store_all(traces, FakeTrace("d", 1000))
    assert stored_names(traces, "abcd") == "bc"


def test_a_trace_that_nobody_looks_at_is_forgotten():
    clock = Clock()
    traces = TraceStore(Limits(trace_minutes=1), clock)
    store_all(traces, FakeTrace("a"), FakeTrace("b"))
    clock.now = 40.0
    assert traces.get("a")
    clock.now = 70.0
    assert (traces.get("b"), bool(traces.get("a"))) == (None, True)
    clock.now = 200.0
    assert traces.get("a") is None
    assert (len(traces), traces.bytes) == (0, 0)


def test_a_trace_stored_again_replaces_the_first():
    traces = TraceStore(Limits())
    store_all(traces, FakeTrace("a", 10), FakeTrace("a", 10))
    assert len(traces) == 1


def test_only_traces_of_the_models_looked_at_last_are_kept():
    """A trace holds its model, so that a server whose model is replaced each minute would hold them all."""
    traces, models = TraceStore(Limits()), [object() for _ in range(MODELS_OF_TRACES + 1)]
    names = "abcd"[: len(models)]
    for name, model in zip(names, models[:-1], strict=False):
        store_all(traces, FakeTrace(name, bundle=model))
    assert traces.get("a")
    store_all(traces, FakeTrace("d", bundle=models[-1]), FakeTrace("e", bundle=models[0]))
    assert stored_names(traces, "abcde") == "acde"
    assert len(traces) == 4
