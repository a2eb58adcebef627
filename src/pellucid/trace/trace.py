"""A trace: one translation with its pieces, every named tensor, every decoding step and the tree of the search."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.translate import Translator
from pellucid.model import ModelConfig, Transformer
from pellucid.model.glossary import glossary
from pellucid.store.directory import Bundle
from pellucid.trace.capture import tensor_dims
from pellucid.trace.edits import EditSpec, check_edits, replaced_tensors
from pellucid.trace.fact_properties import FactProperties
from pellucid.trace.facts import TraceFacts
from pellucid.trace.manifest import build_manifest
from pellucid.trace.named_array import Named

if TYPE_CHECKING:
    from pellucid.trace.attribution import LogitAccount
    from pellucid.trace.checks import Check
    from pellucid.trace.diagnosis import TranslationVerdict


class ModelQueries(Protocol):
    """Questions that a page asks about the whole model: verbs as in `page_api.VERBS`, and their answers for a file.

    They live above traces (pellucid.inspect.model_queries), so whoever opens a model hands them down.
    """

    @property
    def VERBS(self) -> "Mapping[str, tuple[Callable[[Trace, Mapping[str, Any]], dict[str, Any]], tuple[str, ...]]]": ...

    def answers_for_file(self, trace: "Trace") -> dict[str, Any]: ...


@dataclass(frozen=True)
class TraceOrigin:
    """Everything a trace was made with, enough to make another one."""

    translator: Translator
    bundle: Bundle
    beam: int
    prefix_ids: tuple[int, ...]
    keep: tuple[str, ...] | None
    model_queries: Callable[[], ModelQueries] | None = None


class Trace(FactProperties, Mapping[str, Named]):
    """One traced translation: `trace["decoder.3.cross.pattern"]` is a captured tensor, without the batch axis.

    The names are those of the glossary. A trace that was loaded from disk has None as `model` and `tokenizer`: it
    shows what it holds, and cannot be run again. Its arrays cannot be written to.
    """

    def __init__(
        self,
        facts: TraceFacts,
        config: ModelConfig,
        tensors: Mapping[str, np.ndarray],
        origin: TraceOrigin | None = None,
    ):
        super().__init__(facts)
        self.config = config
        self.origin = origin
        self.dims = {row.name: tensor_dims(row) for row in glossary(config)}
        self._tensors = dict(tensors)
        # The manifest and the checks are computed once and cached: arrays that changed later would contradict them.
        for values in self._tensors.values():
            values.setflags(write=False)

    def __getitem__(self, name: str) -> Named:
        """Return a tensor with named axes.

        Raises KeyError, with the nearest name, for an unknown name; ValueError for a tensor that was not captured.
        """
        return Named(name, self.values_of(name), self.dims[name], self.labels)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<Trace {self.id}: {self.source.text!r:.60} to {self.target.text!r:.60}, {len(self)} tensors>"

    def values_of(self, name: str) -> np.ndarray:
        """Return the numbers as captured: float64 for a model in float64, booleans for `allowed`."""
        if name in self._tensors:
            return self._tensors[name]
        if name in self.dims:
            raise ValueError(f"{name!r} was not captured; trace the sentence again with keep={name!r}")
        near = get_close_matches(name, list(self.dims), n=1)
        raise KeyError(f"{name!r:.60} is no tensor of this model" + (f"; did you mean {near[0]!r}?" if near else ""))

    def tensor(self, name: str) -> np.ndarray:
        """Return the numbers in float32, in C order."""
        return np.ascontiguousarray(self.values_of(name), dtype=np.float32)

    def parameter(self, name: str) -> np.ndarray:
        """Return a weight of the model as it is now.

        Raises ValueError where there is no model, KeyError for a name the model does not have.
        """
        if self.model is None:
            raise ValueError(f"the parameter {name!r:.60} was not captured: a trace from disk has no weights")
        try:
            return self.model.get_parameter(name).detach().cpu().numpy()
        except AttributeError:  # which get_parameter raises for an unknown name
            known_names = [parameter for parameter, _ in self.model.named_parameters()]
            near = get_close_matches(name, known_names, n=1)
            suggestion = f"; did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"{name!r:.60} is no parameter of this model{suggestion}") from None

    @property
    def names(self) -> list[str]:
        """Names of the captured tensors, in the order of computation."""
        return list(self._tensors)

    @property
    def nbytes(self) -> int:
        """Bytes that the captured tensors take."""
        return sum(values.nbytes for values in self._tensors.values())

    @property
    def model(self) -> Transformer | None:
        """The model that ran; None for a trace from disk."""
        return None if self.origin is None else self.origin.bundle.model

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that cut the text into pieces; None for a trace from disk."""
        return None if self.origin is None else self.origin.bundle.tokenizer

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The pieces along the axes S and T."""
        # T counts decoder positions, so its labels are the pieces read, beginning with BOS, not those written.
        return {"S": self.source.pieces, "T": self.inputs.pieces}

    @property
    def replaced(self) -> frozenset[str]:
        """Names of the tensors that an edit replaced."""
        return replaced_tensors(self.edits, self.dims)

    def manifest(self) -> dict[str, Any]:
        """Return what the page draws from: the `Manifest` of web/src/types.ts, ready for JSON."""
        return self._manifest

    def checks(self) -> list["Check"]:
        """Return the checks of whether the numbers hold together, each with its measurement."""
        return self._checks

    def account(self, step: int, piece: int | None = None, other: int | None = None) -> "LogitAccount":
        """Account for the logit of a piece (by default the one written), or for its difference to another's."""
        from pellucid.trace.attribution import account_for_logit

        return account_for_logit(self, step, piece, other)

    def verdict(self, reference: str | None = None) -> "TranslationVerdict":
        """Judge why the translation may be bad; each reason comes with its numbers."""
        from pellucid.trace.diagnosis import judge_translation

        return judge_translation(self, reference)

    def answers(self) -> dict[str, Any]:
        """Answer ahead what a page may ask of this trace, for a file; questions without an answer are left out."""
        from pellucid.trace.attribution import account_for_every_step

        answers: dict[str, Any] = {}
        for name, answer in (
            ("accounts", lambda: account_for_every_step(self)),
            ("verdict", lambda: self.verdict().as_json()),
        ):
            try:
                answers[name] = answer()
            except ValueError:  # tensors that were not captured, or a run that was edited
                continue
        return answers

    def model_answers(self) -> dict[str, Any]:
        """Answer ahead what a page may ask of the model: its words, claims tested by another run, its heads."""
        queries = self.model_queries
        return queries.answers_for_file(self) if queries is not None else {}

    @property
    def model_queries(self) -> ModelQueries | None:
        """Answers to questions about the whole model; None unless whoever opened the model handed them down."""
        make_queries = self.origin.model_queries if self.origin is not None else None
        return make_queries() if make_queries is not None else None

    def again(
        self,
        sentence: str,
        *,
        target: str | Sequence[int] | None = None,
        beam: int | None = None,
        prefix_ids: Sequence[int] = (),
        edits: Iterable[EditSpec | Mapping[str, Any]] = (),
    ) -> "Trace":
        """Trace another sentence, or this one differently, with the same model: see `Model.trace`."""
        # Imported here because tracing imports this module.
        from pellucid.trace.tracing import trace_sentence

        origin = self.require_origin()
        width = origin.beam if beam is None else beam
        return trace_sentence(
            origin.translator,
            origin.bundle,
            sentence,
            target=target,
            beam=width,
            prefix_ids=prefix_ids,
            edits=check_edits(edits),
            keep=origin.keep,
            model_queries=origin.model_queries,
        )

    def edited(self, *edits: EditSpec | Mapping[str, Any], keep_target: bool | None = None) -> "Trace":
        """Trace this sentence again with just these edits, in place of those of this trace.

        An edit is a `Silence`, `Pattern`, `Hide` or `Prefix`, or a mapping with the same fields and a "kind". With
        `keep_target`, the default unless there is a `Prefix`, the same translation is traced; without it, one is
        searched for under the edits. Raises ValueError for an edit that does not fit this model or sentence.
        """
        from pellucid.trace.tracing import trace_with_edits  # which imports this module

        return trace_with_edits(self, self.require_origin(), edits, keep_target)

    def require_origin(self) -> TraceOrigin:
        """Return what the trace was made with; ValueError for a trace from disk."""
        if self.origin is None:
            raise ValueError("this trace was loaded from disk and has no model to run; trace the sentence again")
        return self.origin

    def save(self, path: str | Path) -> None:
        """Write the trace into its own directory, whole or not at all; a trace already there is replaced."""
        from pellucid.trace.storage import save_trace

        save_trace(self, path)

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """Load a trace that `save` wrote, trusting nothing in it.

        Raises ValueError, saying what is wrong, for anything else.
        """
        from pellucid.trace.storage import load_trace

        return load_trace(path)

    def show(self) -> Any:
        """Return the page as a widget or frame for a notebook."""
        from pellucid.page.widget import show_in_notebook
        from pellucid.trace.page_api import perform_act  # which imports this module

        return show_in_notebook(self, act=perform_act)

    def save_html(self, path: str | Path, keep: str = "maps") -> int:
        """Write the page as one file that needs no network and return its bytes.

        `keep` is maps, float16, float32 or weights.
        """
        from pellucid.page.html import save_html

        return save_html(self, path, keep)

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return build_manifest(self)

    @cached_property
    def _checks(self) -> list["Check"]:
        from pellucid.trace.checks import check_trace

        return check_trace(self)
