"""A trace in a notebook: a widget that asks Python for what it shows, or the HTML file in a frame without anywidget."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from pellucid.page.assets import read_script
from pellucid.page.blocks import without_infinities
from pellucid.page.html import TraceLike, trace_page

LEAST_HEIGHT, MOST_HEIGHT = 400, 860
"""Pixels a frame is high: on a small screen at least, on a large one at most."""

TRACES_REMEMBERED = 8
"""Traces a widget can still be asked about: the one it was shown with, and the newest."""

PerformAct = Callable[[Any, str, Mapping[str, Any]], Any]
"""Does what a verb of the page asks of a trace, and gives a new trace or what JSON can say."""


class PageFrame:
    """The page in a frame of the notebook: complete without Python, so nothing can be asked of it."""

    def __init__(self, trace: TraceLike):
        self._trace = trace

    def _repr_html_(self) -> str:
        return frame_html(trace_page(self._trace))


class PageQuestions:
    """Answers what the page of one widget asks, about the trace it was shown with and those that came of it."""

    def __init__(self, trace: TraceLike, act: PerformAct):
        self._act = act
        self._first = trace
        self._newer: dict[str, TraceLike] = {}

    def __call__(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a message and the numbers beside it; what cannot be answered is a sentence in "problem"."""
        number = content.get("id")
        try:
            value, buffers = self._answer(content)
        except (ValueError, KeyError) as error:
            return {"id": number, "problem": str(error.args[0] if error.args else error)}, []
        except Exception as error:  # whatever it is, a page that is never answered would wait for ever
            logging.getLogger("pellucid").exception("a question of the page failed: %s", content)
            return {"id": number, "problem": f"Python failed with {type(error).__name__}: {error}"}, []
        return {"id": number, **({} if buffers else {"value": without_infinities(value)})}, buffers

    def _answer(self, content: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
        trace = self._trace_of(content.get("trace"))
        ask = content.get("ask")
        if ask == "manifest":
            return trace.manifest(), []
        if ask == "tensor":
            return None, [array_bytes(trace.tensor(str(content["name"])))]
        if ask == "parameter":
            found = trace.parameter(str(content["name"]))
            return None, [array_bytes(slice_rows(found, content.get("first"), content.get("end")))]
        if ask == "act":
            found = self._act(trace, str(content["verb"]), content["args"])
            return (self._remember(found) if hasattr(found, "manifest") else found), []
        raise ValueError(f"a page asks for a manifest, a tensor, a parameter or an act, not {ask!r}")

    def _trace_of(self, name: Any) -> TraceLike:
        """The trace of this id, or the first."""
        if name is None or name == self._first.manifest()["id"]:
            return self._first
        if name not in self._newer:
            raise ValueError(f"the trace {name} is no longer kept: a widget keeps {TRACES_REMEMBERED}; make it again")
        return self._newer[name]

    def _remember(self, trace: TraceLike) -> dict[str, Any]:
        """The manifest of a trace from now on kept; the oldest goes where there are too many."""
        manifest = trace.manifest()
        self._newer.pop(manifest["id"], None)
        self._newer[manifest["id"]] = trace
        if len(self._newer) >= TRACES_REMEMBERED:
            del self._newer[next(iter(self._newer))]
        return manifest


def show_in_notebook(trace: TraceLike, act: PerformAct) -> Any:
    """What a notebook displays of a trace: the widget where anywidget is installed, the file in a frame otherwise.

    A displayed widget carries the frame too, for programs that show a notebook without a kernel. A notebook that a
    program runs gets the frame alone: its exports would look for the widget's code in the network.
    """
    if is_run_by_program():
        return PageFrame(trace)
    try:
        kind = widget_class()
    except ImportError:
        return PageFrame(trace)
    return kind(trace, act)


@cache
def widget_class() -> type:
    """The class of the widget; ImportError without anywidget."""
    import anywidget

    class TraceWidget(anywidget.AnyWidget):
        """One trace, and the page that shows it."""

        _esm = read_script()

        def __init__(self, trace: TraceLike, act: PerformAct):
            super().__init__()
            self._frame = PageFrame(trace)
            asked = PageQuestions(trace, act)

            def answer(widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
                said, numbers = asked(content)
                widget.send(said, numbers)

            self.on_msg(answer)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            found = super()._repr_mimebundle_(**options)
            data, about = found if isinstance(found, tuple) else (found or {}, {})
            return {**data, "text/html": self._frame._repr_html_()}, about

    return TraceWidget


def is_run_by_program() -> bool:
    """Whether a program runs this notebook: those say that nobody can be asked to type something."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython else None
    return getattr(kernel, "_allow_stdin", True) is False


def frame_html(page: str) -> str:
    """The page in a frame that can reach nothing of the notebook around it."""
    style = f"width:100%;height:clamp({LEAST_HEIGHT}px,85vh,{MOST_HEIGHT}px);border:0"
    inside = page.replace("&", "&amp;").replace("'", "&#39;")  # a page has far more of the other quotes
    about = f"title='trace of a translation' sandbox='allow-scripts allow-downloads' style='{style}'"
    return f"<iframe {about} srcdoc='{inside}'></iframe>"


def array_bytes(values: np.ndarray) -> bytes:
    """Float32, little-endian, the last axis fastest."""
    return values.astype("<f4", order="C").tobytes()


def slice_rows(values: np.ndarray, first: Any, end: Any) -> np.ndarray:
    """Rows `first`, included, to `end`, excluded; ValueError where the array has no such rows."""
    if not (isinstance(first, int) and isinstance(end, int) and 0 <= first <= end <= len(values)):
        raise ValueError(f"rows {first} to {end} were asked for, there are 0 to {len(values)}")
    return values[first:end]
