"""The story of the page: fourteen stops for every kind of model, each told with the numbers of the trace."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.trace.trace import Trace
from tests.page.built import WEB
from tests.page.test_cells import KINDS, SIZES, run, traced, write
from tests.trace.traced import small_traced

PIECE, STEP = 1, 1


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stories") / "stories.mjs"
    words = ["test/tell_story.ts", "--bundle", "--platform=node", "--format=esm", f"--outfile={path}"]
    run(str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild"), *words, "--log-level=warning")
    return path


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_every_kind_of_model_has_fourteen_stops_each_with_all_its_parts(options, script, tmp_path):
    trace = traced(**options)
    stops = story(trace, script, tmp_path)
    assert len(stops) == 14
    captured = {row["name"]: row for row in trace.manifest()["tensors"]}
    for stop in stops:
        assert stop["title"]
        assert stop["attempt"]
        assert stop["says"].endswith((".", "”")), stop["says"]
        for word in ("NaN", "not a number", "undefined", "null", "no such part", "not captured"):
            assert word not in stop["says"]
        assert ElementTree.fromstring(f"<all>{stop['formula']}</all>").findall(".//math")
        leads_somewhere(stop["place"], captured)
        assert stop["tensor"] is None or captured[stop["tensor"]]["code"]["line"] > 0


def leads_somewhere(place: dict[str, Any], tensors: dict[str, Any]) -> None:
    if place["view"] == "cell":
        assert all(0 <= at < size for at, size in zip(place["index"], tensors[place["tensor"]]["shape"], strict=True))
    if place["view"] in ("head", "block"):
        assert any(name.startswith(f"{place['section']}.") for name in tensors)


@pytest.mark.parametrize(
    ("kind", "says", "formula"),
    [
        ("pre", "is added to its embedding", "sin"),
        ("learned", "is added to its embedding", "table"),
        ("post", "rotates the queries and keys", "angle"),
        ("none", "gets no information about positions", "embedding"),
    ],
)
def test_the_stop_of_positions_says_what_this_model_does(kind, says, formula, script, tmp_path):
    stop = story(traced(**KINDS[kind]), script, tmp_path)[3]
    assert says in stop["says"]
    assert formula in stop["formula"]


@pytest.mark.parametrize(("kind", "order"), [("pre", "x=x+part(norm(x))"), ("post", "x=norm(x+part(x))")])
def test_the_stop_of_norms_has_them_where_this_model_has_them(kind, order, script, tmp_path):
    stop = story(traced(**KINDS[kind]), script, tmp_path)[10]
    assert order in "".join(ElementTree.fromstring(f"<all>{stop['formula']}</all>").itertext())


def test_the_numbers_of_the_story_are_those_of_the_trace(script, tmp_path):
    trace = traced(**KINDS["pre"])
    stops = [stop["numbers"] for stop in story(trace, script, tmp_path)]
    seen = {name.removeprefix("encoder.0.self."): trace[name].values for name in trace.names}
    pattern = seen["pattern"][0, PIECE]
    best = int(pattern.argmax())
    width = seen["q"].shape[-1]
    embedding, place = trace["encoder.embedding"].values[PIECE], trace["encoder.positions"].values[PIECE]
    assert close(stops[2], [trace.source.ids[PIECE], SIZES["d_model"] ** 0.5, *embedding[:3]])
    assert close(stops[3], [PIECE, embedding[0], place[0], embedding[0] + place[0]])
    assert close(stops[4], [seen[name][0, PIECE, 0] for name in "qkv"])
    product = float(seen["q"][0, PIECE] @ seen["k"][0, best])
    assert close(stops[5], [product])
    assert close(stops[6], [product, product / width**0.5])
    assert close(stops[8], [1.0, pattern[best]])
    assert close(stops[9], [pattern[best], seen["v"][0, best, 0], float(pattern @ seen["v"][0, :, 0])])
    crossing = trace["decoder.0.cross.pattern"].values[:, STEP].mean(axis=0)
    assert close(stops[11], [crossing.max()])
    logits = trace["logits"].values[STEP].astype(np.float64)
    weights = np.exp(logits - logits.max())
    chosen = trace.target.ids[STEP]
    assert close(stops[12], [logits[chosen], weights[chosen] / weights.sum()])


def test_a_story_of_what_was_not_captured_says_so(script, tmp_path):
    trace = traced()
    write(trace, tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    for row in manifest["tensors"]:
        row["captured"] = row["op"]["kind"] in ("softmax", "causal", "present")
    path.write_text(json.dumps(manifest), "utf-8")
    says = [stop["says"] for stop in tell(script, tmp_path)]
    assert "encoder.embedding was not captured." in says[2]
    assert "was not captured" in says[5]
    assert "attends most to" in says[8]


def test_the_last_stop_tells_of_the_beam_where_there_was_one(script, tmp_path):
    searched = small_traced(**SIZES).trace("The ball is blue.", beam=2)
    assert searched.tree is not None
    says = story(searched, script, tmp_path)[13]["says"]
    assert f"best 2 beginnings at each step; of the {len(searched.tree.nodes)} candidates recorded here" in says
    assert "given, not searched for" in story(traced(), script, tmp_path)[13]["says"]


def story(trace: Trace, script: Path, directory: Path) -> list[dict[str, Any]]:
    write(trace, directory)
    return tell(script, directory)


def tell(script: Path, directory: Path) -> list[dict[str, Any]]:
    return json.loads(run("node", str(script), str(directory), str(PIECE), str(STEP)))


def close(told: list[float], expected: list[float]) -> bool:
    np.testing.assert_allclose(told[: len(expected)], expected, rtol=1e-5, atol=1e-6)
    return True
