"""The widget and the frame of a notebook answer every question of the page, and fall back to the file."""

import logging
import sys
from html import unescape
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pellucid.interpret.page import widget as module
from pellucid.interpret.page.html_file import trace_page
from pellucid.interpret.page.widget import TRACES_REMEMBERED, PageFrame, PageQuestions, frame_html, show_in_notebook
from pellucid.interpret.trace import session
from tests.page.traces import HOSTILE, SCRIPT, HandMadeTrace, built_script
from tests.trace.traced import small_traced

__all__ = ["built_script"]

VIEW = "application/vnd.jupyter.widget-view+json"


def fake_act(trace, verb, args):
    """Answer an act: make a trace of another name, return a table, or fail in one of two ways."""
    if verb == "trace":
        return HandMadeTrace(args["sentence"])
    if verb == "account":
        return {"of": trace.name, "step": args["step"], "value": float("nan")}
    raise {"verdict": ValueError("no verdict on this"), "edit": RuntimeError("a bug")}[verb]


def ask(questions: PageQuestions, **content) -> list[Any]:
    answer, buffers = questions({"id": 7, "trace": None, **content})
    assert answer.pop("id") == 7
    return [answer, *(np.frombuffer(buffer, "<f4") for buffer in buffers)]


def test_the_manifest_is_sent_on_request():
    trace = HandMadeTrace()
    assert ask(PageQuestions(trace, fake_act), ask="manifest") == [{"value": trace.manifest()}]


def test_a_tensor_is_sent_as_float32_beside_the_message():
    trace = HandMadeTrace()
    for name, values in trace.tensors.items():
        answer, numbers = ask(PageQuestions(trace, fake_act), ask="tensor", name=name)
        assert answer == {}
        assert np.array_equal(numbers, values.ravel())


def test_a_parameter_is_sent_by_rows():
    trace = HandMadeTrace()
    questions = PageQuestions(trace, fake_act)
    matrix, vector = trace.parameters.values()
    names = list(trace.parameters)
    assert np.array_equal(ask(questions, ask="parameter", name=names[0], first=3, end=6)[1], matrix[3:6].ravel())
    assert np.array_equal(ask(questions, ask="parameter", name=names[1], first=1, end=3)[1], vector[1:3])
    assert ask(questions, ask="parameter", name=names[0], first=4, end=4)[1].size == 0


def test_an_act_is_answered_with_its_value():
    value = {"of": "a1", "step": 2, "value": None}
    assert ask(PageQuestions(HandMadeTrace(), fake_act), ask="act", verb="account", args={"step": 2}) == [
        {"value": value}
    ]


def test_the_words_and_the_claims_of_a_model_are_asked_like_everything_else():
    trace = small_traced().trace("Yes.", target="Si.")
    arguments = {"words": {"side": "source"}, "masking": {}, "heads": {}}
    for verb, args in arguments.items():
        [answer] = ask(PageQuestions(trace, session.perform_act), ask="act", verb=verb, args=args)
        assert answer == {"value": session.perform_act(trace, verb, args)}
    [answer] = ask(PageQuestions(trace, session.perform_act), ask="act", verb="words", args={"side": "left"})
    assert answer["problem"].startswith("side is 'left'")


def test_a_new_trace_can_be_asked_about_beside_the_first():
    questions = PageQuestions(HandMadeTrace("first"), fake_act)
    [answer] = ask(questions, ask="act", verb="trace", args={"sentence": "the second one"})
    assert answer["value"] == HandMadeTrace("the second one").manifest()
    for name in ("first", "the second one"):
        assert np.array_equal(
            ask(questions, ask="tensor", name="logits", trace=name)[1], HandMadeTrace(name).tensors["logits"].ravel()
        )
    [answer] = ask(questions, ask="act", verb="account", args={"step": 0}, trace="the second one")
    assert answer["value"]["of"] == "the second one"


def test_a_widget_keeps_the_first_trace_and_the_newest():
    questions = PageQuestions(HandMadeTrace("first"), fake_act)
    for number in range(20):
        ask(questions, ask="act", verb="trace", args={"sentence": f"number {number}"})
    kept_names = [f"number {number}" for number in range(20 - (TRACES_REMEMBERED - 1), 20)]
    for name in ["first", *kept_names]:
        assert ask(questions, ask="manifest", trace=name)[0]["value"]["id"] == name
    for number in range(20 - (TRACES_REMEMBERED - 1)):
        assert "is no longer kept" in ask(questions, ask="manifest", trace=f"number {number}")[0]["problem"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"ask": "act", "verb": "verdict", "args": {}}, "no verdict on this"),
        ({"ask": "tensor", "name": "nothing"}, "nothing"),
        ({"ask": "tensor"}, "name"),
        ({"ask": "everything"}, "a page asks for a manifest, a tensor, a parameter or an act, not 'everything'"),
        ({}, "a page asks for"),
        ({"ask": "parameter", "name": "source_embedding.weight", "first": 3, "end": 99}, "rows 3 to 99"),
        ({"ask": "parameter", "name": "source_embedding.weight", "first": -1, "end": 2}, "there are 0 to 11"),
        ({"ask": "parameter", "name": "source_embedding.weight"}, "rows None to None"),
    ],
)
def test_questions_that_cannot_be_answered_get_a_sentence(content, words: str):
    [answer] = ask(PageQuestions(HandMadeTrace(), fake_act), **content)
    assert list(answer) == ["problem"]
    assert words in answer["problem"]


def test_a_failure_in_python_is_reported_to_the_page_and_to_the_log(caplog):
    with caplog.at_level(logging.ERROR, "pellucid"):
        [answer] = ask(PageQuestions(HandMadeTrace(), fake_act), ask="act", verb="edit", args={})
    assert answer == {"problem": "Python failed with RuntimeError: a bug"}
    assert "a bug" in str(caplog.records[0].exc_info)


def test_without_anywidget_the_file_stands_in_a_frame(built_script, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setattr(module, "widget_class", module.widget_class.__wrapped__)
    frame = show_in_notebook(HandMadeTrace(), fake_act)
    assert isinstance(frame, PageFrame)
    assert frame._repr_html_() == frame_html(trace_page(HandMadeTrace()))


@pytest.mark.parametrize("allows_input", [True, False])
def test_a_notebook_run_by_a_program_gets_only_the_frame(built_script, monkeypatch, allows_input: bool):
    pytest.importorskip("anywidget")
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=allows_input))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(module, "widget_class", lambda: lambda trace, fake_act: "the widget")
    display = show_in_notebook(HandMadeTrace(), fake_act)
    assert display == "the widget" if allows_input else isinstance(display, PageFrame)


def test_a_frame_holds_the_whole_page_and_reaches_nothing_around_it():
    page = f"<!doctype html><p title='a'>{HOSTILE}</p>&lt;&#39;"
    elements = []

    class ElementReader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            elements.append((tag, dict(attrs)))

    ElementReader().feed(frame_html(page))
    [(tag, attributes)] = elements
    assert tag == "iframe"
    assert attributes["srcdoc"] == page
    assert str(attributes["sandbox"]).split() == ["allow-scripts", "allow-downloads"]
    assert set(attributes) == {"title", "sandbox", "style", "srcdoc"}


@pytest.fixture
def widget(built_script, monkeypatch):
    """The widget of a trace, and the messages it sends."""
    pytest.importorskip("anywidget")
    monkeypatch.setattr(module, "widget_class", module.widget_class.__wrapped__)
    page_widget = show_in_notebook(HandMadeTrace(), fake_act)
    sent = []
    monkeypatch.setattr(page_widget, "send", lambda content, buffers=None: sent.append((content, buffers)))
    return page_widget, sent


def test_the_widget_has_one_copy_of_the_script_and_no_numbers(widget):
    page_widget, _ = widget
    state = page_widget.get_state()
    assert state["_esm"] == SCRIPT
    public_state = {key: value for key, value in state.items() if not key.startswith("_")}
    assert set(public_state) <= {"layout", "tabbable", "tooltip"}


def test_the_widget_answers_messages_with_numbers_beside_them(widget):
    page_widget, sent = widget
    page_widget._handle_custom_msg({"id": 3, "trace": None, "ask": "tensor", "name": "logits"}, [])
    page_widget._handle_custom_msg({"id": 4, "trace": None, "ask": "act", "verb": "account", "args": {"step": 1}}, [])
    (first, [numbers]), (second, no_buffers) = sent
    assert (first, no_buffers) == ({"id": 3}, [])
    assert np.array_equal(np.frombuffer(numbers, "<f4"), HandMadeTrace().tensors["logits"].ravel())
    assert second == {"id": 4, "value": {"of": "a1", "step": 1, "value": None}}


def test_a_displayed_widget_carries_the_file_for_programs_without_a_kernel(widget):
    page_widget, _ = widget
    data, _ = page_widget._repr_mimebundle_()
    assert data[VIEW]["model_id"] == page_widget.model_id
    assert unescape(data["text/html"].partition("srcdoc='")[2].rpartition("'")[0]) == trace_page(HandMadeTrace())
