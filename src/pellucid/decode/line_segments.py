"""The onion of a translation: lines, their segments, what a search finds for them, and the stages around a search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.data.text.line_splitting import SplitLine
from pellucid.data.text.markup import TaggedText
from pellucid.data.text.sentences import count_sentences
from pellucid.decode.request import Hypothesis, Links, SearchConfig, SearchRequest, continue_always
from pellucid.decode.source_reader import ReadText
from pellucid.decode.translation import Translation

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology, TermSpan
    from pellucid.decode.terms.required import Term


@dataclass(frozen=True)
class LengthLimits:
    """Longest sources in pieces, EOS included: of those a model was trained on, and of those it takes."""

    longest_trained: int
    longest: int


@dataclass(frozen=True)
class Line:
    """A line of the user with what was asked for it: its number, how its translation begins, what stands before it.

    `has_markup` says that tags are looked for in it, `has_terms` that it is text without a letter
    and has a term all the same. A line whose translation is `known` is not searched for; `similar` is
    the translation of a similar line.
    """

    text: str
    number: int
    prefix: str = ""
    context: str = ""
    has_markup: bool = False
    has_terms: bool = False
    known: str | None = None
    similar: str = ""


@dataclass(frozen=True)
class Segment:
    """One sentence or more that are translated together.

    The first `context` tokens of its source are read only. `marked` is what the user wrote, `read`
    what the model reads for it, after the text `context_text`. The translation has each of `terms`,
    in one of its spellings; `term_spans` has the span of each in the text that is read. `plain` has
    the tokens of its translation without terms, if the terms that it lacks are marked in the
    source. `line` is the line that it is a part of, and `notes` tell the user how it was read.
    """

    marked: TaggedText
    read: ReadText
    request: SearchRequest
    terms: "tuple[Term, ...]" = ()
    term_spans: "tuple[TermSpan, ...]" = ()
    plain: tuple[int, ...] = ()
    context: int = 0
    context_text: str = ""
    line: Line | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CutLine:
    """A line of the user and the segments of it that are translated.

    There are none where its translation `is_known`. The notes say how it was cut, and which of its
    characters the vocabulary does not have.
    """

    line: Line
    split_line: SplitLine
    segments: tuple[Segment, ...]
    cut_note: str | None = None
    unknown_note: str | None = None
    is_known: bool = False

    @property
    def is_joined(self) -> bool:
        """Whether one of its segments holds several sentences."""
        return any(count_sentences(segment.marked.text) > 1 for segment in self.segments)

    def list_notes(self, segments: Sequence[Segment]) -> tuple[str, ...]:
        """Return the notes on how the line was read, each once, given its segments as they were searched for."""
        notes = [self.cut_note]
        for segment in segments:
            notes.extend(segment.notes)
        notes.append(self.unknown_note)
        return tuple(note for note in dict.fromkeys(notes) if note)


@dataclass(frozen=True)
class SearchResult:
    """Result of searching one segment: hypotheses, best first, the text of each, and its links where they are needed.

    `segment` is the segment as it was searched for, with all that the stages gave it. Where there
    is no hypothesis, the notes say why. `tagged` has the texts with the tags of the segment, if it
    has any.
    """

    segment: Segment
    hypotheses: list[Hypothesis]
    texts: list[str] = field(default_factory=list)
    links: list[Links] = field(default_factory=list)
    tagged: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()


# What is said of a segment whose terms or prefix left no translation; elsewhere the weights may be
# damaged.
NOT_FOUND = "no translation was found that has its terms and begins with its prefix"

Search = Callable[[list[Segment]], list[SearchResult]]
LineSearch = Callable[[list[Line]], list[Translation]]


class SearchStage(Protocol):
    """Something around a search: it is given the search further in, and may call it never, once or again."""

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        """Return a result for each segment, in order."""
        ...


class LineStage(Protocol):
    """Something around the translation of lines, which it may call never, once or again."""

    def __call__(self, lines: list[Line], search: LineSearch) -> list[Translation]:
        """Return a translation of each line, in order."""
        ...


class LineStageMaker(Protocol):
    """Something that takes part in translating lines, such as a translation memory: it makes its own stage."""

    def make_stage(self) -> LineStage:
        """Return the stage of one call of `Translator.translate`."""
        ...


@dataclass(frozen=True)
class TranslationTask:
    """Lines that are translated in one call, and what was asked for all of them.

    `check_wanted` is called again and again, and ends the translation by an exception.
    """

    lines: list[Line]
    config: SearchConfig
    terms: "Terminology | None" = None
    translation_memory: LineStageMaker | None = None
    check_wanted: Callable[[], None] = continue_always

    @property
    def has_markup(self) -> bool:
        """Whether tags are looked for in one of the lines."""
        return any(line.has_markup for line in self.lines)


def surround(search: Callable[..., Any], stages: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a search with stages around it, the outermost first.

    >>> def search_twice(segments, search):
    ...     return search([*segments, *segments])
    >>> surround(len, [search_twice, search_twice])("abc")
    12
    """
    for stage in reversed(stages):
        search = partial(stage, search=search)
    return search
