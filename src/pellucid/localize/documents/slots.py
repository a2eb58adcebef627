"""Slots of a document: places with a text to translate, whose inline markup is kept as numbered tags."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import count
from typing import Literal, TypeAlias

# A stretch of a document: markup that stays as it is, and slots for translations.
Part: TypeAlias = "str | TextSlot | LanguagePlace"
Parts: TypeAlias = Sequence[Part]
MOST_TAGS = 2000  # inline tags of one text; placing more would take long, and no sentence has them

NUMBERED_TAG = re.compile(r"</?(\d{1,6})/?>")
_SPACE_WITH_LINE_END = re.compile(r"(?<! )[ ]*+[\t\r\n\f][ \t\r\n\f]*+")
LETTER = re.compile(r"[^\W\d_]")


def _keep(text: str) -> str:
    return text


@dataclass(frozen=True)
class LanguagePlace:
    """A place where a document names the language of its text."""

    original: str
    name: Callable[[str], str] = _keep  # makes what stands here, given the code of the language


@dataclass(frozen=True)
class Inline:
    """Markup inside a text: an opening tag, the closing tag with the same key, or something that stands alone."""

    kind: Literal["opening", "closing", "single"]
    key: Hashable
    parts: Parts
    # What stands before and after each text between this opening tag and its closing tag, instead of
    # `base_wrap`.
    wrap: tuple[str, str] | None = None


@dataclass(frozen=True)
class Review:
    """Advice to a person about a translation: to look at it or to do it again, and why."""

    grade: Literal["look", "redo"]
    reason: str


Wrap: TypeAlias = tuple[str, str]
"""What stands before and after a text with some formatting."""


@dataclass(frozen=True, slots=True)
class TextSlot:
    """A text to translate, in which numbered tags stand for the markup inside it."""

    text: str
    tags: Mapping[str, Parts] = field(default_factory=dict)  # what each numbered tag stands for
    # The original markup, written back where the translation equals the text.
    original: Parts | None = None
    escape: Callable[[str], str] = _keep
    finish: Callable[[str], str] = _keep
    wraps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    base_wrap: tuple[str, str] = ("", "")
    before: Parts = ()  # what stands before the translation, and is a part of `original` too
    after: Parts = ()
    # Changes a wrap so that readers see that a person is needed.
    mark: Callable[[Wrap, Review], Wrap] | None = None
    # Names another language where a wrap names one.
    name_language: Callable[[Wrap, str], Wrap] | None = None
    # What a line end is, where it stands between texts and not in one.
    line_break: str | None = None
    unit: int | None = None  # number of the unit in a bilingual document that this text is in
    # Level of the heading that this text is, 1 for the largest; 0 for any other text.
    heading: int = 0

    @property
    def is_translatable(self) -> bool:
        """Whether the text has a letter outside its tags; numbers and signs alone stay as they are."""
        return LETTER.search(NUMBERED_TAG.sub("", self.text)) is not None

    def write(
        self,
        translation: str,
        tags: Mapping[str, str],
        review: Review | None = None,
        language: str | None = None,
    ) -> str:
        """Write a translation with its markup, given what each numbered tag stands for and the language it is in."""
        pieces = [*_split_numbered_tags(translation, tags)]
        own = [*_split_numbered_tags(self.text, tags)]
        there = [piece for piece in own if piece in tags]
        here = [piece for piece in pieces if piece in tags]

        # All tags once each, and no pair that crosses another unless it did so in the document.
        if sorted(here) != sorted(there) or not _find_crossing(here) <= _find_crossing(there):
            # A tag too many or too few would damage the document: the text stands together, beside
            # all tags in order.
            plain = "".join(piece for piece in pieces if piece not in tags)
            first = 0
            while first < len(own) and (own[first] in tags or not own[first].strip()):
                first += 1
            pieces = [piece for piece in own[:first] if piece in tags]
            pieces += [plain, *(piece for piece in own[first:] if piece in tags)]

        out, wraps = [], [self.base_wrap]
        for piece in pieces:
            if piece in tags:
                out.append(tags[piece])
                if piece.startswith("</"):
                    wraps = wraps[: max(1, len(wraps) - 1)]
                elif not piece.endswith("/>"):
                    wraps.append(self.wraps.get(piece, wraps[-1]))
            elif piece:
                wrap = wraps[-1]
                if language is not None and self.name_language is not None:
                    wrap = self.name_language(wrap, language)
                if review is not None and self.mark is not None:
                    wrap = self.mark(wrap, review)
                before, after = wrap
                lines = [piece] if self.line_break is None else piece.split("\n")
                written = [f"{before}{self.escape(line)}{after}" if line else "" for line in lines]
                out.append((self.line_break or "").join(written))
        return self.finish("".join(out))


def _split_numbered_tags(text: str, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the numbered tags of a text that are known, and the texts between them, in order."""
    position = 0
    for match in NUMBERED_TAG.finditer(text) if known else ():
        if match[0] in known:
            yield text[position : match.start()]
            yield match[0]
            position = match.end()
    yield text[position:]


def _find_crossing(tags: Sequence[str]) -> set[str]:
    """Return the opening tags that are closed too late, and the closing tags that come too early.

    >>> sorted(_find_crossing(["<0>", "<1>", "</0>", "</1>", "<2>", "</2>"])), _find_crossing(["</0>", "<0>"])
    (['<1>'], {'</0>'})
    """
    open_tags: list[str] = []
    crossing: set[str] = set()

    paired = set(tags)
    for tag in tags:
        opening = f"<{tag[2:]}"
        if not tag.startswith("</"):
            open_tags += [tag] if f"</{tag[1:]}" in paired else []
        elif opening in open_tags:
            place = open_tags.index(opening)
            crossing.update(open_tags[place + 1 :])
            del open_tags[place]
        elif opening in paired:
            crossing.add(tag)
    return crossing


def make_slot(
    items: Iterable[str | Inline],
    escape: Callable[[str], str],
    *,
    read: Callable[[str], str] = unescape,
    keep_lines: bool = False,
    finish: Callable[[str], str] = _keep,
) -> Parts:
    """Join texts and inline markup to one slot; white space around it stays outside, and so does all without a text.

    Texts are as they stand in the document; `read` gives their characters.
    Line ends are spaces unless `keep_lines`.
    """
    raw, before, after = [*items], "", ""
    if raw and isinstance(raw[0], str):
        stripped = raw[0].lstrip()
        before, raw[0] = raw[0][: len(raw[0]) - len(stripped)], stripped
    if raw and isinstance(raw[-1], str):
        stripped = raw[-1].rstrip()
        after, raw[-1] = raw[-1][len(stripped) :], stripped

    stood: list[Part] = []
    for item in raw:
        stood += [item] if isinstance(item, str) else item.parts
    original = join_markup(stood)
    items = [read(item) if isinstance(item, str) else item for item in raw]
    if not any(isinstance(item, str) and item.strip() for item in items):
        return join_markup([before, *original, after])

    if not keep_lines:
        items = [
            _SPACE_WITH_LINE_END.sub(" ", item) if isinstance(item, str) else item for item in items
        ]

    text, tags, _ = number_tags(items)
    return [
        part
        for part in (before, TextSlot(text, tags, original, escape, finish), after)
        if part != ""
    ]


def number_tags(
    items: Sequence[str | Inline],
) -> tuple[str, dict[str, Parts], dict[str, tuple[str, str]]]:
    """Return texts and inline markup as one text with numbered tags, what each stands for, and the wraps of some."""

    # A text may itself contain something like <0>, which must not be taken for a tag of ours.
    used: set[int] = set()
    for item in items:
        if isinstance(item, str):
            used.update(map(int, NUMBERED_TAG.findall(item)))

    numbers = (number for number in count() if number not in used)
    tags: dict[str, Parts] = {}
    wraps: dict[str, tuple[str, str]] = {}
    open_tags: dict[Hashable, list[int]] = {}
    out: list[str] = []

    for item in items:
        if isinstance(item, str):
            out.append(item)
            continue

        if item.kind == "closing":
            # HTML in the wild closes tags out of order, so it need not be the one opened last.
            opened = open_tags.get(item.key)
            tag = f"</{opened.pop() if opened else next(numbers)}>"
        else:
            number = next(numbers)
            tag = f"<{number}/>" if item.kind == "single" else f"<{number}>"
            if item.kind == "opening":
                open_tags.setdefault(item.key, []).append(number)

        tags[tag] = item.parts
        if item.wrap is not None:
            wraps[tag] = item.wrap
        out.append(tag)
    return "".join(out), tags, wraps


def list_slots(parts: Parts) -> Iterator[TextSlot]:
    """Yield the slots of a document in the order in which `fill_slots` takes their translations."""
    for part in parts:
        if isinstance(part, TextSlot):
            yield part
            # The markup around and inside a text may hold texts of its own, as a footnote does.
            for inner in (part.before, *part.tags.values(), part.after):
                yield from list_slots(inner)


def fill_slots(
    parts: Parts,
    translations: Iterator[str],
    reviews: Mapping[int, Review] | None = None,
    language: str | None = None,
) -> str:
    """Join the parts of a document, with a translation in each of its slots.

    `reviews` has the translations that are to be marked, each by the `id` of its slot. `language`
    is the language of the translations.
    """
    reviews = reviews or {}
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        if isinstance(part, LanguagePlace):
            out.append(part.original if language is None else part.name(language))
            continue

        translation = next(translations)
        review = None if part.mark is None else reviews.get(id(part))
        if translation == part.text and part.original is not None and review is None:
            # Its slots stand for the markup around and inside the text, in the same order.
            out.append(fill_slots(part.original, translations, reviews, language))
        else:
            out.append(fill_slots(part.before, translations, reviews, language))
            tags = {}
            for tag, inner in part.tags.items():
                tags[tag] = fill_slots(inner, translations, reviews, language)
            out.append(part.write(translation, tags, review, language))
            out.append(fill_slots(part.after, translations, reviews, language))
    return "".join(out)


def join_markup(parts: Iterable[Part]) -> Parts:
    """Return parts with neighbouring markup joined."""
    joined: list[Part] = []
    run: list[str] = []
    for part in parts:
        if isinstance(part, str):
            run.append(part)
            continue
        joined += ["".join(run), part]
        run = []
    return [part for part in [*joined, "".join(run)] if part != ""]
