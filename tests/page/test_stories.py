"""The story of the page has fourteen stops for every kind of model, and its numbers are those of the trace."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.interpret.trace.session import Trace
from tests.page.built import WEB
from tests.page.telling import choose_telling
from tests.page.test_cells import KINDS, SIZES, make_trace, run_program, write_trace
from tests.trace.traced import small_traced

PIECE, STEP = 1, 1


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stories") / "stories.mjs"
    arguments = ["test/tell_story.ts", "--bundle", "--platform=node", "--format=esm", f"--outfile={path}"]
    run_program(str(WEB / "node_modules" / "esbuild" / "bin" / "esbuild"), *arguments, "--log-level=warning")
    return path


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_every_kind_of_model_has_fourteen_stops_each_with_all_its_parts(options, script, tmp_path):
    trace = make_trace(**options)
    stops = make_story(trace, script, tmp_path)
    assert len(stops) == 14
    captured = {row["name"]: row for row in trace.manifest()["tensors"]}
    for stop in stops:
        assert stop["title"]
        assert stop["attempt"]
        assert stop["says"].endswith((".", "”")), stop["says"]
        for word in ("NaN", "not a number", "undefined", "null", "no such part", "not captured"):
            assert word not in stop["says"]
        assert ElementTree.fromstring(f"<all>{stop['formula']}</all>").findall(".//math")
        assert_place_exists(stop["place"], captured)
        assert stop["tensor"] is None or captured[stop["tensor"]]["code"]["line"] > 0


def assert_place_exists(place: dict[str, Any], tensors: dict[str, Any]) -> None:
    if place["view"] == "cell":
        assert all(
            0 <= index < size for index, size in zip(place["index"], tensors[place["tensor"]]["shape"], strict=True)
        )
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
    stop = make_story(make_trace(**KINDS[kind]), script, tmp_path)[3]
    assert says in stop["says"]
    assert formula in stop["formula"]


@pytest.mark.parametrize(("kind", "order"), [("pre", "x=x+part(norm(x))"), ("post", "x=norm(x+part(x))")])
def test_the_stop_of_norms_says_where_this_model_has_them(kind, order, script, tmp_path):
    stop = make_story(make_trace(**KINDS[kind]), script, tmp_path)[10]
    assert order in "".join(ElementTree.fromstring(f"<all>{stop['formula']}</all>").itertext())


def test_the_numbers_of_the_story_are_those_of_the_trace(script, tmp_path):
    trace = make_trace(**KINDS["pre"])
    stops = [stop["numbers"] for stop in make_story(trace, script, tmp_path)]
    telling = choose_telling(trace, piece=PIECE)
    head = telling.encoder.head
    tensors = {name.removeprefix("encoder.0.self."): trace[name].values for name in trace.names}
    pattern = tensors["pattern"][head, PIECE]
    best = int(pattern.argmax())
    width = tensors["q"].shape[-1]
    embedding, position = trace["encoder.embedding"].values[PIECE], trace["encoder.positions"].values[PIECE]
    assert are_close(stops[2], [trace.source.ids[PIECE], *embedding[:3]])
    assert are_close(stops[3], [PIECE, embedding[0], position[0], embedding[0] + position[0]])
    assert are_close(stops[4], [tensors[name][head, PIECE, 0] for name in "qkv"])
    product = float(tensors["q"][head, PIECE] @ tensors["k"][head, best])
    assert are_close(stops[5], [product])
    assert are_close(stops[6], [product, product / width**0.5])
    assert are_close(stops[8], [product / width**0.5, pattern[best]])
    mixed = float(pattern @ tensors["v"][head, :, 0])
    assert are_close(stops[9], [pattern[best], tensors["v"][head, best, 0], mixed, tensors["output"][PIECE, 0]])
    assert are_close(stops[11], [trace["decoder.0.cross.pattern"].values[telling.cross.head, STEP].max()])
    logits = trace["logits"].values[STEP].astype(np.float64)
    weights = np.exp(logits - logits.max())
    token = trace.target.ids[STEP]
    assert are_close(stops[12], [logits[token], weights[token] / weights.sum()])


@pytest.mark.parametrize("kind", ["pre", "rms"])
def test_every_number_of_a_text_says_where_it_stands(kind, script, tmp_path):
    trace = make_trace(**KINDS[kind])
    parts_of_views = {"pieces", "logit", "probability", "log P", "score"}
    for stop in make_story(trace, script, tmp_path):
        assert stop["unplaced"] == [], stop["title"]
        for number, spot in zip(stop["numbers"], stop["spots"], strict=True):
            name, index = spot["name"], tuple(spot["index"])
            if name in trace.names and len(index) == trace[name].values.ndim:
                assert are_close([number], [float(trace[name].values[index])]), spot
            elif name not in trace.names:
                assert name in parts_of_views | {row["name"] for row in trace.manifest()["parameters"]}


@pytest.mark.parametrize("is_measured", [True, False])
def test_the_story_tells_of_the_head_and_the_word_that_tell_most(is_measured, script, tmp_path):
    trace = small_traced(**{**SIZES, "encoder_layers": 2, "decoder_layers": 2}).trace(
        "The ball is blue.", target="La bola es azul."
    )
    sections = [name.removesuffix(".pattern") for name in trace.names if name.endswith(".pattern")]
    rng = np.random.default_rng(5)
    heads = [
        {"attention": name, "head": h, "badges": [], "silent": rng.normal()} for name in sections for h in range(3)
    ]
    study = {"heads": heads} if is_measured else None
    telling = choose_telling(trace, study)
    write_trace(trace, tmp_path)
    story = tell_story(script, tmp_path, "", "", json.dumps(study and {"study": study}))
    assert (story["piece"], story["step"]) == (telling.piece, telling.step)
    readings = [telling.encoder, telling.cross]
    assert story["chosen"] == [{"section": reading.section, "head": reading.head} for reading in readings]
    assert any(reading.head > 0 for reading in readings)


def test_a_story_names_tensors_that_were_not_captured(script, tmp_path):
    trace = make_trace()
    write_trace(trace, tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    for row in manifest["tensors"]:
        row["captured"] = row["op"]["kind"] in ("softmax", "causal", "present")
    path.write_text(json.dumps(manifest), "utf-8")
    says = [stop["says"] for stop in tell_story(script, tmp_path)["stops"]]
    assert "encoder.embedding was not captured." in says[2]
    assert "was not captured" in says[5]
    assert "attends most to" in says[11]


def test_the_last_stop_tells_of_the_beam_if_there_was_a_search(script, tmp_path):
    searched = small_traced(**SIZES).trace("The ball is blue.", beam=2)
    assert searched.tree is not None
    says = make_story(searched, script, tmp_path)[13]["says"]
    kept = [sum(node.step == step and node.fate == "kept" for node in searched.tree.nodes) for step in range(99)]
    steps = max(node.step for node in searched.tree.nodes)
    scored = searched["logits"].values.shape[-1] * (1 + sum(kept[:steps]))  # every piece after each beginning kept
    assert f" {scored:,} candidates in all; of the {len(searched.tree.nodes)} drawn".replace(",", "\u202f") in says
    assert "given, not searched for" in make_story(make_trace(), script, tmp_path)[13]["says"]


def make_story(trace: Trace, script: Path, directory: Path) -> list[dict[str, Any]]:
    write_trace(trace, directory)
    return tell_story(script, directory)["stops"]


def tell_story(script: Path, directory: Path, *told: str) -> dict[str, Any]:
    """Tell the story of a trace: of the second piece and step, or as the arguments of the script say."""
    return json.loads(run_program("node", str(script), str(directory), *(told or (str(PIECE), str(STEP)))))


def are_close(numbers: list[float], expected: list[float]) -> bool:
    np.testing.assert_allclose(numbers[: len(expected)], expected, rtol=1e-5, atol=1e-6)
    return True
