"""One translation with everything that led to it: pieces, every named tensor, every step, the tree of the search."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pellucid.bundle import Bundle
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.translate import Translator
from pellucid.model import ModelConfig, Transformer
from pellucid.model.glossary import glossary
from pellucid.trace.capture import tensor_dims
from pellucid.trace.edits import EditSpec, check_edits, replaced_tensors
from pellucid.trace.fact_properties import FactProperties
from pellucid.trace.facts import TraceFacts
from pellucid.trace.manifest import build_manifest
from pellucid.trace.named_array import Named

if TYPE_CHECKING:
    from pellucid.trace.causes.logit_accounts import LogitAccount
    from pellucid.trace.causes.verdict import TranslationVerdict
    from pellucid.trace.checks.all_checks import Check


class ModelQueries(Protocol):
    """What a page asks beside a trace, of the whole model: verbs as in `acts`, and their answers for a file.

    They stand above traces (pellucid.inspect.model_queries), so whoever opens a model hands them down.
    """

    @property
    def VERBS(self) -> "Mapping[str, tuple[Callable[[Trace, Mapping[str, Any]], dict[str, Any]], tuple[str, ...]]]": ...

    def answers_for_file(self, trace: "Trace") -> dict[str, Any]: ...


@dataclass(frozen=True)
class TraceOrigin:
    """What a trace was made with: enough to make another."""

    translator: Translator
    bundle: Bundle
    beam: int
    prefix_ids: tuple[int, ...]
    keep: tuple[str, ...] | None
    model_queries: Callable[[], ModelQueries] | None = None


class Trace(FactProperties, Mapping[str, Named]):
    """`trace["decoder.3.cross.pattern"]`: every captured tensor by its name in the glossary, without the batch axis.

    Of a trace that was loaded from disk `model` and `tokenizer` are None: it shows what it holds, and cannot be run
    again. Its arrays cannot be written to.
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
        for values in self._tensors.values():
            values.setflags(write=False)

    def __getitem__(self, name: str) -> Named:
        """KeyError, with the nearest name, for one there is not; ValueError for one that was not captured."""
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
        """The numbers as they were captured: float64 of a model in float64, booleans of what is allowed."""
        if name in self._tensors:
            return self._tensors[name]
        if name in self.dims:
            raise ValueError(f"{name!r} was not captured; trace the sentence again with keep={name!r}")
        near = get_close_matches(name, list(self.dims), n=1)
        raise KeyError(f"{name!r:.60} is no tensor of this model" + (f"; did you mean {near[0]!r}?" if near else ""))

    def tensor(self, name: str) -> np.ndarray:
        """The numbers in float32, rows last."""
        return np.ascontiguousarray(self.values_of(name), dtype=np.float32)

    def parameter(self, name: str) -> np.ndarray:
        """A weight of the model as it is now. ValueError where there is no model, KeyError for a name it has not."""
        if self.model is None:
            raise ValueError(f"the parameter {name!r:.60} was not captured: a trace from disk has no weights")
        try:
            return self.model.get_parameter(name).detach().cpu().numpy()
        except AttributeError:
            known = [each for each, _ in self.model.named_parameters()]
            near = get_close_matches(name, known, n=1)
            told = f"; did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"{name!r:.60} is no parameter of this model{told}") from None

    @property
    def names(self) -> list[str]:
        """What was captured, in the order of computation."""
        return list(self._tensors)

    @property
    def nbytes(self) -> int:
        """Bytes that the captured tensors take."""
        return sum(values.nbytes for values in self._tensors.values())

    @property
    def model(self) -> Transformer | None:
        """The model that ran."""
        return None if self.origin is None else self.origin.bundle.model

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What cut the text into pieces."""
        return None if self.origin is None else self.origin.bundle.tokenizer

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The pieces along S and T."""
        return {"S": self.source.pieces, "T": self.inputs.pieces}

    @property
    def replaced(self) -> frozenset[str]:
        """The tensors that an edit replaced."""
        return replaced_tensors(self.edits, self.dims)

    def manifest(self) -> dict[str, Any]:
        """What the page draws from: the `Manifest` of web/src/types.ts, ready for JSON."""
        return self._manifest

    def checks(self) -> list["Check"]:
        """Whether the numbers hold together, each with what was measured."""
        return self._checks

    def account(self, step: int, piece: int | None = None, other: int | None = None) -> "LogitAccount":
        """Where the logit of a piece (by default the one written) came from, or its difference to another's."""
        from pellucid.trace.causes.logit_accounts import account_for_logit

        return account_for_logit(self, step, piece, other)

    def verdict(self, reference: str | None = None) -> "TranslationVerdict":
        """Why the translation may be bad, each reason with its numbers."""
        from pellucid.trace.causes.verdict import judge_translation

        return judge_translation(self, reference)

    def answers(self) -> dict[str, Any]:
        """What can be asked of a trace, answered ahead for a file; what cannot be answered is left out."""
        from pellucid.trace.causes.logit_accounts import account_for_every_step

        found: dict[str, Any] = {}
        for name, answer in (
            ("accounts", lambda: account_for_every_step(self)),
            ("verdict", lambda: self.verdict().as_json()),
        ):
            try:
                found[name] = answer()
            except ValueError:  # tensors that were not captured, or a run that was edited
                continue
        return found

    def model_answers(self) -> dict[str, Any]:
        """What else a file could ask nobody for: the words of the model, claims tested by another run, its heads."""
        above = self.model_queries
        return above.answers_for_file(self) if above is not None else {}

    @property
    def model_queries(self) -> ModelQueries | None:
        """What answers for the whole model, if whoever opened it handed that down."""
        give = self.origin.model_queries if self.origin is not None else None
        return give() if give is not None else None

    def again(
        self,
        sentence: str,
        *,
        target: str | Sequence[int] | None = None,
        beam: int | None = None,
        prefix_ids: Sequence[int] = (),
        edits: Iterable[EditSpec | Mapping[str, Any]] = (),
    ) -> "Trace":
        """Another sentence, or the same otherwise, by the same model: see `Model.trace`."""
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
        """The same sentence with just these changes to the run, instead of those of this trace.

        Each is a `Silence`, `Pattern`, `Hide` or `Prefix`, or a mapping of the same names and a "kind". With
        `keep_target`, which is meant unless a prefix is asked for, the same translation is read; otherwise it is
        searched for anew under the changes. Raises ValueError for a change that has no place in this run.
        """
        from pellucid.trace.tracing import trace_with_edits

        return trace_with_edits(self, self.require_origin(), edits, keep_target)

    def require_origin(self) -> TraceOrigin:
        """What it was made with; ValueError for a trace from disk."""
        if self.origin is None:
            raise ValueError("this trace was loaded from disk and has no model to run; trace the sentence again")
        return self.origin

    def save(self, path: str | Path) -> None:
        """Write it into a directory of its own, whole or not at all; a trace that is there is replaced."""
        from pellucid.trace.storage import save_trace

        save_trace(self, path)

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """A trace as `save` wrote it, read as a stranger's; ValueError, saying what is wrong, for anything else."""
        from pellucid.trace.storage import load_trace

        return load_trace(path)

    def show(self) -> Any:
        """The page in a notebook."""
        from pellucid.page.widget import show_in_notebook
        from pellucid.trace.page_api import perform_act

        return show_in_notebook(self, act=perform_act)

    def save_html(self, path: str | Path, keep: str = "maps") -> int:
        """The page as one file that needs no network; `keep` is maps, float16, float32 or weights. Bytes written."""
        from pellucid.page.html import save_html

        return save_html(self, path, keep)

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return build_manifest(self)

    @cached_property
    def _checks(self) -> list["Check"]:
        from pellucid.trace.checks.all_checks import check_trace

        return check_trace(self)
