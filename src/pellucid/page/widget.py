"""A trace in a notebook: a widget that asks Python for what it shows, or the HTML file in a frame without anywidget."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from pellucid.page.assets import bundle
from pellucid.page.blocks import finite
from pellucid.page.html import Traced, page_of

FEWEST, MOST = 400, 860
"""Pixels a frame is high: on a small screen at least, on a large one at most."""

REMEMBERED = 8
"""Traces a widget can still be asked about: the one it was shown with, and the newest."""

Act = Callable[[Any, str, Mapping[str, Any]], Any]
"""Does what a verb of the page asks of a trace, and gives a new trace or what JSON can say."""


class Frame:
    """The page in a frame of the notebook: complete without Python, so nothing can be asked of it."""

    def __init__(self, trace: Traced):
        self._trace = trace

    def _repr_html_(self) -> str:
        return frame(page_of(self._trace))


class Asked:
    """Answers what the page of one widget asks, about the trace it was shown with and those that came of it."""

    def __init__(self, trace: Traced, act: Act):
        self._act = act
        self._first = trace
        self._newer: dict[str, Traced] = {}

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
        return {"id": number, **({} if buffers else {"value": finite(value)})}, buffers

    def _answer(self, content: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
        trace = self._meant(content.get("trace"))
        ask = content.get("ask")
        if ask == "manifest":
            return trace.manifest(), []
        if ask == "tensor":
            return None, [numbers(trace.tensor(str(content["name"])))]
        if ask == "parameter":
            found = trace.parameter(str(content["name"]))
            return None, [numbers(rows(found, content.get("first"), content.get("end")))]
        if ask == "act":
            found = self._act(trace, str(content["verb"]), content["args"])
            return (self._shown(found) if hasattr(found, "manifest") else found), []
        raise ValueError(f"a page asks for a manifest, a tensor, a parameter or an act, not {ask!r}")

    def _meant(self, name: Any) -> Traced:
        """The trace of this id, or the first."""
        if name is None or name == self._first.manifest()["id"]:
            return self._first
        if name not in self._newer:
            raise ValueError(f"the trace {name} is no longer kept: a widget keeps {REMEMBERED}; make it again")
        return self._newer[name]

    def _shown(self, trace: Traced) -> dict[str, Any]:
        """The manifest of a trace from now on kept; the oldest goes where there are too many."""
        manifest = trace.manifest()
        self._newer.pop(manifest["id"], None)
        self._newer[manifest["id"]] = trace
        if len(self._newer) >= REMEMBERED:
            del self._newer[next(iter(self._newer))]
        return manifest


def show(trace: Traced, act: Act) -> Any:
    """What a notebook displays of a trace: the widget where anywidget is installed, the file in a frame otherwise.

    A displayed widget carries the frame too, for programs that show a notebook without a kernel. A notebook that a
    program runs gets the frame alone: its exports would look for the widget's code in the network.
    """
    if runs_by_itself():
        return Frame(trace)
    try:
        kind = widget_class()
    except ImportError:
        return Frame(trace)
    return kind(trace, act)


@cache
def widget_class() -> type:
    """The class of the widget; ImportError without anywidget."""
    import anywidget

    class TraceWidget(anywidget.AnyWidget):
        """One trace, and the page that shows it."""

        _esm = bundle()

        def __init__(self, trace: Traced, act: Act):
            super().__init__()
            self._frame = Frame(trace)
            asked = Asked(trace, act)

            def answer(widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
                said, numbers = asked(content)
                widget.send(said, numbers)

            self.on_msg(answer)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            found = super()._repr_mimebundle_(**options)
            data, about = found if isinstance(found, tuple) else (found or {}, {})
            return {**data, "text/html": self._frame._repr_html_()}, about

    return TraceWidget


def runs_by_itself() -> bool:
    """Whether a program runs this notebook: those say that nobody can be asked to type something."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython else None
    return getattr(kernel, "_allow_stdin", True) is False


def frame(page: str) -> str:
    """The page in a frame that can reach nothing of the notebook around it."""
    style = f"width:100%;height:clamp({FEWEST}px,85vh,{MOST}px);border:0"
    inside = page.replace("&", "&amp;").replace("'", "&#39;")  # a page has far more of the other quotes
    about = f"title='trace of a translation' sandbox='allow-scripts allow-downloads' style='{style}'"
    return f"<iframe {about} srcdoc='{inside}'></iframe>"


def numbers(values: np.ndarray) -> bytes:
    """Float32, little-endian, the last axis fastest."""
    return values.astype("<f4", order="C").tobytes()


def rows(values: np.ndarray, first: Any, end: Any) -> np.ndarray:
    """Rows `first`, included, to `end`, excluded; ValueError where the array has no such rows."""
    if not (isinstance(first, int) and isinstance(end, int) and 0 <= first <= end <= len(values)):
        raise ValueError(f"rows {first} to {end} were asked for, there are 0 to {len(values)}")
    return values[first:end]
