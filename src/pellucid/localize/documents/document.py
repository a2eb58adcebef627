"""A document taken apart: its texts to translate, everything else, and an account of what is not translated."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pellucid.localize.documents.chapters import Chapter, divide_chapters
from pellucid.localize.documents.reading import DocumentReading, DocumentTooLarge
from pellucid.localize.documents.slots import (
    MOST_TAGS,
    Parts,
    Review,
    TextSlot,
    fill_slots,
    list_slots,
)


class Document:
    """A document taken apart: the texts to translate in their order, and everything else, which stays as it is."""

    def __init__(
        self,
        bodies: Sequence[Parts],
        write: Callable[[list[str]], bytes],
        reading: DocumentReading,
        mark_units: Callable[[str, Mapping[int, list[Review]]], str] | None = None,
    ):
        self._bodies = bodies
        self._mark_units = mark_units
        self._write = write
        self._slots: list[TextSlot] = []
        self.texts: list[str] = []
        self._levels: list[list[int]] = []  # of the headings among the texts of each body
        self.kept = reading.kept
        for body in bodies:
            levels = []
            for slot in list_slots(body):
                self._slots.append(slot)
                if slot.is_translatable:
                    self.texts.append(slot.text)
                    levels.append(slot.heading)
                elif slot.text.strip():
                    self.kept["without letters"] += 1
            self._levels.append(levels)

        reading.go_on()

        limits = reading.limits
        characters = sum(map(len, self.texts))
        if len(self.texts) > limits.texts or characters > limits.characters:
            raise DocumentTooLarge(
                f"{len(self.texts):,} texts of {characters:,} characters together; {limits.texts:,} texts and "
                f"{limits.characters:,} characters are taken"
            )

        if any(len(slot.tags) > MOST_TAGS for slot in self._slots):
            raise ValueError(f"a paragraph has more than {MOST_TAGS:,} inline tags")

    @property
    def chapters(self) -> list[Chapter]:
        """Chapters of `texts`; each of the files in a document, such as its footnotes, has its own."""
        chapters: list[Chapter] = []
        start = 0
        for levels in self._levels:
            chapters += divide_chapters(self.texts[start : start + len(levels)], levels, start)
            start += len(levels)
        return chapters

    def write(
        self,
        translations: Iterable[str],
        reviews: Sequence[Review | None] = (),
        language: str | None = None,
    ) -> bytes:
        """Return the document with these translations of its `texts`, in their order, in a language that it then names.

        `reviews` has what is to be marked in a document of a format in
        `MARKED_FORMATS`, one for each text or none.
        """
        remaining = iter(translations)
        texts = [next(remaining) if slot.is_translatable else slot.text for slot in self._slots]
        filled = iter(texts)
        marked: dict[int, Review] = {}
        units: dict[int, list[Review]] = {}
        if reviews:
            translatable = (slot for slot in self._slots if slot.is_translatable)
            for slot, review in zip(translatable, reviews, strict=True):
                if review is not None:
                    marked[id(slot)] = review
                    if slot.unit is not None:
                        units.setdefault(slot.unit, []).append(review)

        bodies = [fill_slots(body, filled, marked, language) for body in self._bodies]
        if units and self._mark_units is not None:
            bodies = [self._mark_units(body, units) for body in bodies]
        return self._write(bodies)
