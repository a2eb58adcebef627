"""Shows a trace in a notebook: a widget that asks Python for what it shows, or the HTML file in a frame."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from pellucid.interpret.page.html_file import TraceLike, read_script, trace_page, without_infinities

# Pixels of a frame's height: at least on a small screen, at most on a large one.
LEAST_HEIGHT = 400
MOST_HEIGHT = 860
TRACES_REMEMBERED = 8  # traces a widget can still be asked about: the one it was shown with, and the newest
# Function that carries out a verb of the page on a
# trace; it returns a new trace or what JSON can hold.
PerformAct = Callable[[Any, str, Mapping[str, Any]], Any]


class PageFrame:
    """The page in a frame of the notebook: complete without Python, so nothing more can be asked."""

    def __init__(self, trace: TraceLike):
        self._trace = trace

    def _repr_html_(self) -> str:
        return frame_html(trace_page(self._trace))


class PageQuestions:
    """Answers the questions of one widget's page, about the trace it was shown with and those made from it."""

    def __init__(self, trace: TraceLike, act: PerformAct):
        self._act = act
        self._first = trace
        self._newer: dict[str, TraceLike] = {}

    def __call__(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the answer to a message and the numbers beside it; a failure is a sentence in "problem"."""
        number = content.get("id")
        try:
            value, buffers = self._answer(content)
        except (ValueError, KeyError) as error:
            return {"id": number, "problem": str(error.args[0] if error.args else error)}, []
        except Exception as error:  # any error: a page that is never answered would wait for ever
            logging.getLogger("pellucid").exception("a question of the page failed: %s", content)
            return {
                "id": number,
                "problem": f"Python failed with {type(error).__name__}: {error}",
            }, []
        return {"id": number, **({} if buffers else {"value": without_infinities(value)})}, buffers

    def _answer(self, content: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
        trace = self._trace_of(content.get("trace"))
        ask = content.get("ask")
        if ask == "manifest":
            return trace.manifest(), []
        if ask == "tensor":
            return None, [_array_bytes(trace.tensor(str(content["name"])))]
        if ask == "parameter":
            weight = trace.parameter(str(content["name"]))
            first = content.get("first")
            end = content.get("end")
            if not (isinstance(first, int) and isinstance(end, int) and 0 <= first <= end <= len(weight)):
                raise ValueError(f"rows {first} to {end} were asked for, there are 0 to {len(weight)}")
            return None, [_array_bytes(weight[first:end])]

        if ask == "act":
            result = self._act(trace, str(content["verb"]), content["args"])
            # A new trace has a manifest; everything else is ready for JSON.
            return (self._remember(result) if hasattr(result, "manifest") else result), []

        raise ValueError(f"a page asks for a manifest, a tensor, a parameter or an act, not {ask!r}")

    def _trace_of(self, name: Any) -> TraceLike:
        """Return the trace with this id; without an id, the first one."""
        if name is None or name == self._first.manifest()["id"]:
            return self._first
        if name not in self._newer:
            raise ValueError(f"the trace {name} is no longer kept: a widget keeps {TRACES_REMEMBERED}; make it again")
        return self._newer[name]

    def _remember(self, trace: TraceLike) -> dict[str, Any]:
        """Keep a trace from now on, dropping the oldest of too many, and return its manifest."""
        manifest = trace.manifest()
        # Removed and added again, because a dict keeps a
        # replaced entry where it was, and order is age here.
        self._newer.pop(manifest["id"], None)
        self._newer[manifest["id"]] = trace
        # ">=", since the first trace, which is kept for good, counts too.
        if len(self._newer) >= TRACES_REMEMBERED:
            del self._newer[next(iter(self._newer))]
        return manifest


def show_in_notebook(trace: TraceLike, act: PerformAct) -> Any:
    """Return what a notebook displays of a trace: the widget where anywidget is installed, a frame otherwise.

    A displayed widget carries the frame too, for programs that show a notebook without a kernel.
    """
    # A notebook that a program runs is about to be exported, and the widget's code would be looked
    # for in the network.
    if _is_run_by_program():
        return PageFrame(trace)
    try:
        widget = widget_class()
    except ImportError:
        return PageFrame(trace)
    return widget(trace, act)


@cache
def widget_class() -> type:
    """Return the class of the widget; ImportError without anywidget."""
    import anywidget  # optional, which is why the class is defined in here

    class TraceWidget(anywidget.AnyWidget):
        """One trace, and the page that shows it."""

        _esm = read_script()

        def __init__(self, trace: TraceLike, act: PerformAct):
            super().__init__()
            self._frame = PageFrame(trace)
            questions = PageQuestions(trace, act)

            def answer(widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
                reply, numbers = questions(content)
                widget.send(reply, numbers)

            self.on_msg(answer)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            bundle = super()._repr_mimebundle_(**options)
            # It may return data with metadata, data alone, or nothing.
            data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
            return {**data, "text/html": self._frame._repr_html_()}, metadata

    return TraceWidget


def _is_run_by_program() -> bool:
    """Whether a program runs this notebook: such programs say that nobody can be asked to type something."""
    # Looked up, not imported: outside IPython there is nothing to find.
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython else None
    return getattr(kernel, "_allow_stdin", True) is False


def frame_html(page: str) -> str:
    """Return the page in a frame that can reach nothing of the notebook around it."""
    style = f"width:100%;height:clamp({LEAST_HEIGHT}px,85vh,{MOST_HEIGHT}px);border:0"
    # Single quotes around the page, which has far more double ones that would need escaping.
    inside = page.replace("&", "&amp;").replace("'", "&#39;")
    about = f"title='trace of a translation' sandbox='allow-scripts allow-downloads' style='{style}'"
    return f"<iframe {about} srcdoc='{inside}'></iframe>"


def _array_bytes(values: np.ndarray) -> bytes:
    return values.astype("<f4", order="C").tobytes()
