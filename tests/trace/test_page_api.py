"""A page gets from a trace what the trace itself computes, and hostile arguments are refused."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from pellucid.interpret.trace.session import VERBS, Trace, perform_act
from tests.serve.servers import small_model


@pytest.fixture(scope="module")
def trace() -> Trace:
    return small_model().trace("The ball is blue.")


def as_table(result) -> dict:
    assert isinstance(result, dict)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    return result


def as_trace(result) -> Trace:
    assert isinstance(result, Trace)
    return result


def test_an_account_is_that_of_the_trace(trace):
    piece = trace.steps[2].top[0].id
    assert as_table(perform_act(trace, "account", {"step": 2, "piece": piece})) == trace.account(2, piece).as_json()
    assert (
        as_table(perform_act(trace, "account", {"step": 2, "piece": piece, "other": 7}))
        == trace.account(2, piece, 7).as_json()
    )


def test_a_verdict_is_that_of_the_trace(trace):
    assert as_table(perform_act(trace, "verdict", {})) == trace.verdict().as_json()
    assert as_table(perform_act(trace, "verdict", {"reference": "Sí."})) == trace.verdict("Sí.").as_json()


def test_another_sentence_is_traced_by_the_same_model(trace):
    other = as_trace(perform_act(trace, "trace", {"sentence": "Yes.", "beam": 2}))
    assert other.model is trace.model
    assert (other.source.text, other.manifest()["run"]["search"]["beam"]) == ("Yes.", 2)
    other = as_trace(
        perform_act(trace, "trace", {"sentence": "Yes.", "target": "Sí.", "prefix_ids": None, "beam": None})
    )
    assert (other.target.text, other.forced) == ("Sí.", True)
    other = as_trace(perform_act(trace, "trace", {"sentence": "Yes.", "prefix_ids": [11, 12]}))
    assert other.target.ids[:2] == [11, 12]


def test_edits_are_made_as_requested(trace):
    values = [0.0] * len(trace.source.pieces)
    values[1] = 1
    edits = [
        {"kind": "hide", "word": 2},
        {"kind": "pattern", "attention": "decoder.0.cross", "head": 0, "row": 1, "values": values},
    ]
    edited = as_trace(perform_act(trace, "edit", {"edits": edits, "keep_target": True}))
    assert edited.target.ids == trace.target.ids
    assert edited.manifest()["edits"] == edits
    assert edited["decoder.0.cross.pattern"].values[0, 1].tolist() == values
    assert as_trace(perform_act(trace, "edit", {"edits": [], "keep_target": True})).edits == []


def test_a_prefix_begins_the_translation(trace):
    edited = as_trace(
        perform_act(trace, "edit", {"edits": [{"kind": "prefix", "text": "El gato"}], "keep_target": False})
    )
    assert edited.target.text.startswith("El gato")


def nested_lists(depth: int) -> list:
    """A list in a list, and so on."""
    lists: list = []
    for _ in range(depth):
        lists = [lists]
    return lists


HIDE = {"kind": "hide", "word": 0}
SILENCE = {"kind": "silence", "attention": "decoder.0.cross", "head": 0}
ROW = {"kind": "pattern", "attention": "decoder.0.cross", "head": 0, "row": 0, "values": [0.5] * 9}


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        ("destroy", {}, "not something a trace can do"),
        ("__class__", {}, "not something a trace can do"),
        ("account", [], "account is []; it should be an object"),
        ("account", None, "account is None; it should be an object"),
        ("account", {}, "account.step is missing; account.piece is missing"),
        ("account", {"step": -1, "piece": 0}, "step is -1"),
        ("account", {"step": 999, "piece": 0}, "step is 999"),
        ("account", {"step": True, "piece": 0}, "step is True"),
        ("account", {"step": 0.0, "piece": 0}, "step is 0.0"),
        ("account", {"step": 0, "piece": 307}, "piece is 307"),
        ("account", {"step": 0, "piece": 10**400}, "a whole number of 1329 bits, at most 53 are read"),
        ("account", {"step": 0, "piece": 0, "other": "x"}, "other is 'x'"),
        ("account", {"step": 0, "piece": 0, "extra": 1}, "account.extra is unknown"),
        ("verdict", {"reference": 5}, "reference is 5"),
        ("verdict", {"reference": "\ud800"}, "surrogate"),
        ("verdict", {"reference": "a" * 10**6}, "string should have at most 100000 characters"),
        ("trace", {}, "trace.sentence is missing"),
        ("trace", {"sentence": ["Yes."]}, "sentence is"),
        ("trace", {"sentence": "Yes.", "beam": 10**9}, "beam is 1000000000"),
        ("trace", {"sentence": "Yes.", "prefix_ids": "1,2"}, "it should be a valid array"),
        (
            "trace",
            {"sentence": "Yes.", "prefix_ids": [0] * 10**6},
            "1,000,000 entries in one place",
        ),
        ("trace", {"sentence": "Yes.", "prefix_ids": [1.0]}, "prefix_ids[0] is 1.0; it should be a valid integer"),
        ("trace", {"sentence": "Yes.", "prefix_ids": [9], "target": "No."}, "both given"),
        ("edit", {"edits": [HIDE]}, "edit.keep_target is missing"),
        ("edit", {"edits": [HIDE], "keep_target": 1}, "keep_target is 1"),
        ("edit", {"edits": HIDE, "keep_target": True}, "it should be a valid array"),
        ("edit", {"edits": [HIDE] * 65, "keep_target": True}, "at most 64"),
        ("edit", {"edits": nested_lists(500), "keep_target": True}, "recursion limit"),
        ("edit", {"edits": nested_lists(50_000), "keep_target": True}, "that JSON cannot hold"),
        ("edit", {"edits": {1, 2}, "keep_target": True}, "that JSON cannot hold"),
        ("edit", {"edits": [[]], "keep_target": True}, "edit.edits[0] is []; it should be an object"),
        ("edit", {"edits": [{"kind": ["hide"]}], "keep_target": True}, "does not match any of the expected tags"),
        ("edit", {"edits": [{"kind": "burn"}], "keep_target": True}, "does not match any of the expected tags"),
        ("edit", {"edits": [{**HIDE, "word": 99}], "keep_target": True}, "word 99"),
        ("edit", {"edits": [{**HIDE, "word": "0"}], "keep_target": True}, "word is '0'"),
        ("edit", {"edits": [{**HIDE, "why": 1}], "keep_target": True}, "edit.edits[0].hide.why is unknown"),
        ("edit", {"edits": [{**SILENCE, "head": 2}], "keep_target": True}, "head 2"),
        ("edit", {"edits": [{**SILENCE, "attention": "decoder.*.cross"}], "keep_target": True}, "no attention"),
        ("edit", {"edits": [{**SILENCE, "attention": "encoder.0.cross"}], "keep_target": True}, "no attention"),
        ("edit", {"edits": [{**ROW, "values": [float("nan")] * 9}], "keep_target": True}, "values[0] is nan"),
        ("edit", {"edits": [{**ROW, "values": [True] * 9}], "keep_target": True}, "values[0] is True"),
        ("edit", {"edits": [{**ROW, "values": [1e999]}], "keep_target": True}, "values[0] is inf"),
        ("edit", {"edits": [{**ROW, "values": []}], "keep_target": True}, "weights"),
        ("edit", {"edits": [{**ROW, "values": [0.0] * 10**5}], "keep_target": True}, "100000 were given"),
        ("edit", {"edits": [{**ROW, "row": 10**6}], "keep_target": True}, "row 1000000"),
        ("edit", {"edits": [{"kind": "prefix", "text": " "}], "keep_target": False}, "blank"),
    ],
)
def test_hostile_arguments_are_refused_with_a_sentence(trace, verb: str, arguments, words: str):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        perform_act(trace, verb, arguments)
    assert len(str(caught.value)) < 300


def test_the_verbs_and_their_arguments_are_those_of_the_page():
    types = (Path(__file__).parents[2] / "web" / "src" / "types.ts").read_text(encoding="utf-8")
    acts = types.partition("export interface Acts {")[2].partition("\n}")[0]
    for verb, (kind, _) in VERBS.items():
        arguments = acts.partition(f"  {verb}: {{ args: ")[2].partition("; gives")[0]
        names = set() if arguments == "Record<string, never>" else set(re.findall(r"(\w+)\??:", arguments))
        assert names == {field.name for field in fields(kind)}
