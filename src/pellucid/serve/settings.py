"""Settings of a server: the limits on what it accepts, and the languages of its model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from pydantic import Field

from pellucid.data.languages import is_language_code, is_same_variety, name_language
from pellucid.store.manifest_checks import read_languages

Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@pydantic.dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on requests, queues and stored traces; all are on by default. Raises ValueError, naming every problem."""

    characters: Annotated[Count, "characters in all texts of a request together"] = 5000
    texts: Annotated[Count, "texts in a request"] = 64
    alternatives: Annotated[CountOrNone, "other translations of a text"] = 7
    request_terms: Annotated[Count, "terms in a request"] = 200
    term_characters: Annotated[
        Count, "characters of a source term or a target term in a request"
    ] = 200
    body: Annotated[Count, "bytes in the body of a request"] = 2**20
    document_bytes: Annotated[
        Count, "bytes of a document; unpacked it may have eight times as many"
    ] = 2**23
    document_characters: Annotated[Count, "characters in all texts of a document together"] = (
        200_000
    )
    document_elements: Annotated[
        Count, "elements of all XML or HTML in a document; each takes up to 800 bytes"
    ] = 200_000
    documents: Annotated[
        Count, "documents translated at the same time; one more is told to come again (503)"
    ] = 4
    files: Annotated[Count, "translated documents kept; the oldest goes first"] = 32
    file_bytes: Annotated[Count, "bytes of all translated documents kept"] = 2**27
    file_minutes: Annotated[Seconds, "until a translated document is forgotten"] = 10.0
    waiting: Annotated[
        Count, "requests that wait for the model; one more is told to come again (503)"
    ] = 64
    connections: Annotated[
        Count,
        "connections open at the same time; those without a complete request give way to others",
    ] = 512
    open_requests: Annotated[Count, "requests open at the same time"] = 256
    each: Annotated[
        CountOrNone, "requests open at the same time from one address (429); 0: as many as from all"
    ] = 32
    seconds: Annotated[
        Seconds,
        "from the arrival of a request until it is given up: told to come again (503) where others kept it waiting, "
        "and otherwise that it asks for too much (504); a document that takes longer may wait as long as it takes "
        "itself, and so long at most",
    ] = 30.0
    stopping: Annotated[
        Seconds,
        "after SIGTERM until the server has ended; what cannot be answered in the first half is told to come again "
        "(503). Docker kills a container after 10",
    ] = 8.0
    stuck: Annotated[
        Seconds, "at one piece of work after which /health says that the model's thread is stuck"
    ] = 300.0
    arrival: Annotated[
        Seconds, "seconds the header of a request may take to arrive, and then its body (408)"
    ] = 10.0
    models: Annotated[
        Count, "models in memory; of several directions, the one not used for longest goes first"
    ] = 4
    beam: Annotated[Count, "beam of a trace"] = 16
    traces: Annotated[Count, "traces kept; the one not looked at for longest goes first"] = 32
    trace_bytes: Annotated[Count, "bytes of all traces kept"] = 2**30
    trace_minutes: Annotated[Seconds, "until a trace that nobody looks at is forgotten"] = 30.0
    page_bytes: Annotated[
        CountOrNone,
        "bytes of the weights, in float32, of a model that the page computes changes with; 0: none",
    ] = 40_000_000


# Private-use tags (BCP 47, section 2.2.7) for the source and
# target of a model that names no languages.
_UNNAMED = ("x-source", "x-target")


@dataclass(frozen=True)
class Languages:
    """Codes of the source and the target language. A model that names none accepts every code."""

    source: str = _UNNAMED[0]
    target: str = _UNNAMED[1]

    @classmethod
    def from_manifest(
        cls, manifest: Mapping[str, Any], source: str | None = None, target: str | None = None
    ) -> "Languages":
        """Take the given codes, or else the codes in the model's manifest; raise ValueError for an invalid code."""
        # A name on the command line goes before the model's: an
        # imported model may carry none, or a wrong one.
        if source is None:
            source, target = read_languages(manifest) or (None, None)
        if source is None or target is None:
            return cls()
        for code in (source, target):
            if not is_language_code(code):
                raise ValueError(f"{code!r:.40} is not a language code; write en, es or pt-BR")
        return cls(source, target)

    @property
    def are_named(self) -> bool:
        """Whether the model's languages are known."""
        return (self.source, self.target) != _UNNAMED

    @property
    def codes(self) -> tuple[str, str] | None:
        """Codes of both languages; None where they are not known."""
        return (self.source, self.target) if self.are_named else None

    def fit(self, source: str, target: str) -> bool:
        """Whether the model translates between these two; "auto" is its own source. What is no code fits none."""
        sides = [(target, self.target)]
        if source != "auto":
            sides.append((source, self.source))

        for code, own in sides:
            if not is_language_code(code):
                return False
            if self.are_named and not is_same_variety(code, own):
                return False
        return True

    def __str__(self) -> str:
        return f"{self.source} to {self.target}"


def describe_missing_direction(
    offered: Iterable[Languages], source: str, target: str, who: str = "this model"
) -> str:
    """Return the sentence that refuses a direction, with the directions that are there."""
    return f"{who} translates {', '.join(map(str, offered))}, not {source!r:.40} to {target!r:.40}"


def language_name(code: str) -> str:
    """Return the English name of a language; the code itself where no name is known.

    >>> language_name("es"), language_name("x-source")
    ('Spanish', 'the source language of this model, which is not named')
    """
    if code in _UNNAMED:
        return f"the {code.removeprefix('x-')} language of this model, which is not named"
    return name_language(code)
