"""Chooses what is translated among the messages of a program, which stand under keys: of JSON and of YAML."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pellucid.data.formats.units import matches_language
from pellucid.data.languages import is_known_language, spell_code, split_code
from pellucid.data.text.icu_messages import is_damaged_message
from pellucid.data.text.plural_rules import (
    PLURAL_CATEGORIES,
    find_plural_rule,
    list_plural_categories,
)
from pellucid.data.text.protected import has_same_protected
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import LanguagePlace, Part, Parts, TextSlot, join_markup

_MEMBERS_TOGETHER = 1000  # members after which `go_on` is asked
_DESCRIPTIONS = ("description", "comment", "context", "meaning", "note")
_COMMENT_KEY = re.compile(r"\$.*|_comments?|//.*", re.DOTALL)
# A name of a program that stands as a value: red_ball, home.title, homeTitle, #ff0000, /a/b, :day.
_CODE = re.compile(
    r"(?=[A-Za-z]*+[\d.:]*+_)[A-Za-z][\w.:]*+|[a-z]\w++(?:\.[a-z]\w++)++|[a-z]++[A-Z]\w*+|#[0-9a-fA-F]{3,8}+|[/.]{1,2}[\w./-]++"
    r"|:[a-z_]++"
)
_SUFFIX = re.compile(rf"(?:(.*)_)?({'|'.join(PLURAL_CATEGORIES)})", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class MessageNode:
    """A value in a file of messages: a text, other values under keys or in a list, or something else."""

    start: int
    end: int
    text: str | None = None
    write: Callable[[str], str] = str  # makes what stands for another text in the same place
    members: "list[MessageMember]" = field(default_factory=list)
    has_keys: bool = False


@dataclass(slots=True)
class MessageMember:
    """A value with its key, which is empty in a list, and where the key stands."""

    key: str
    start: int
    end: int
    value: MessageNode
    write_key: Callable[[str], str] = str


# What separates a new member from one that stands before it; None where nothing can be added.
Separate = Callable[[MessageMember], str | None]


def split_messages(
    name: str, text: str, root: MessageNode, separate: Separate, reading: DocumentReading
) -> Parts:
    """Take a file of messages apart, given its values.

    Raises ValueError for a file with the messages of several languages.
    """
    splitter = _MessageSplitter(text, separate, reading)
    members = root.members
    if root.has_keys and members and all(_is_language_member(member) for member in members):
        _refuse_several_languages(name, members, reading)
        if len(members) == 1 and _names_source(members[0], reading):
            [member] = members
            splitter.add(member.start, member.end, _make_language_place(text, member))
            splitter.split(member.value)
            return splitter.join()
    if root.has_keys and _are_extension_messages(root):
        splitter.split_described(root, ("message",))
    elif root.has_keys and name.lower().endswith(".arb"):
        splitter.split_application_resources(root)
    elif root.has_keys and any(_has_text(member.value, "defaultMessage") for member in members):
        splitter.split_described(root, ("defaultMessage",))
    else:
        splitter.split(root)
    return splitter.join()


def _is_language_member(member: MessageMember) -> bool:
    return is_known_language(member.key) and member.value.has_keys


def _names_source(member: MessageMember, reading: DocumentReading) -> bool:
    """Whether a key is the code of the source: `my`, `no` and `it` are codes of languages, too, and words."""
    return reading.languages is None or matches_language(reading.languages[0], member.key)


def _refuse_several_languages(
    name: str, members: Sequence[MessageMember], reading: DocumentReading
) -> None:
    languages = [member.key for member in members]
    if (
        len(languages) > 1
        and reading.languages
        and any(matches_language(reading.languages[0], it) for it in languages)
    ):
        raise ValueError(
            f"{name} holds messages in {len(languages)} languages ({', '.join(languages)[:100]}); expected one "
            "language in a file; split it"
        )


def _are_extension_messages(root: MessageNode) -> bool:
    """Whether these are the messages of a browser extension, each with a description and placeholders."""
    with_keys = [member.value for member in root.members if member.value.has_keys]
    known = {"message", "description", "placeholders", "hash"}
    return bool(with_keys) and all(
        any(part.key == "message" and part.value.text is not None for part in value.members)
        and all(part.key in known for part in value.members)
        for value in with_keys
    )


def _has_text(node: MessageNode, key: str) -> bool:
    return any(member.key == key and member.value.text is not None for member in node.members)


def _make_language_place(text: str, member: MessageMember) -> LanguagePlace:
    """Return the place of a key that is the code of the language."""
    return LanguagePlace(
        text[member.start : member.end],
        lambda code: member.write_key(_spell_code(code, member.key)),
    )


def _spell_code(code: str, old: str) -> str:
    """Return the code of a language, with the sign that the old one has before its region.

    >>> _spell_code("pt-br", "en_US"), _spell_code("pt-br", "en")
    ('pt_BR', 'pt-BR')
    """
    return spell_code(code, "_" if "_" in old else "-")


def find_plural_needs(reading: DocumentReading) -> tuple[tuple[str, ...], bool]:
    """Return the forms of a plural that the translation has, and whether the one for one thing counts 21 things, too.

    Such a form needs the number that "one file" does not have.
    """
    if reading.languages is None:
        return (), False
    target, _ = split_code(reading.languages[1])
    return list_plural_categories(target), find_plural_rule(target).singular_counts_more


class _MessageSplitter:
    """Collects the places of a file that change, in their order."""

    def __init__(self, text: str, separate: Separate, reading: DocumentReading):
        self.text = text
        self.separate = separate
        self.reading = reading
        self.parts: list[Part] = []
        self.position = 0
        self.members = 0
        self.categories, self.needs_number = find_plural_needs(reading)

    def add(self, start: int, end: int, *parts: Part) -> None:
        """Put parts in the place of what stands there."""
        self.parts += [self.text[self.position : start], *parts]
        self.position = end

    def join(self) -> Parts:
        return join_markup([*self.parts, self.text[self.position :]])

    def walk(self, node: MessageNode) -> Iterator[MessageMember]:
        """Yield the members of a value, and let others have their turn now and then."""
        for member in node.members:
            self.members += 1
            if self.members % _MEMBERS_TOGETHER == 0:
                self.reading.go_on()
            yield member

    # Texts

    def split(self, node: MessageNode) -> None:
        """Add the texts of a value and of those in it."""
        if node.text is not None:
            self.add_text(node)
            return

        plurals = _find_plurals(node) if node.has_keys else {}
        for member in self.walk(node):
            plural = plurals.get(member.key)
            if node.has_keys and _COMMENT_KEY.fullmatch(member.key):
                self.count_comments(member.value)
            elif plural is not None and member.value.text is not None:
                self.add_form(member, plural)
            else:
                self.split(member.value)

    def add_text(self, node: MessageNode, source: str | None = None) -> None:
        """Add a slot for a text, which is translated from `source` where that is another text."""
        text = node.text
        assert text is not None
        source = text if source is None else source
        if _SURROGATE.search(text) or is_damaged_message(text):
            self.reading.kept["other"] += 1
        elif _CODE.fullmatch(text):
            self.reading.kept["code"] += 1
        elif text.strip():
            original = [self.text[node.start : node.end]] if source == text else None
            self.add(node.start, node.end, TextSlot(source, original=original, finish=node.write))

    def add_form(self, member: MessageMember, plural: "_Plural") -> None:
        """Add a form of a plural; behind the general one, those that the language of the translation needs, too."""
        category = plural.category(member)
        other = plural.forms["other"].value.text or ""
        source = None
        if category == "one" and self.needs_number:
            source = None if has_same_protected(member.value.text or "", other) else other
        self.add_text(member.value, source)

        if member is not plural.forms["other"]:
            return
        if _CODE.fullmatch(other) or is_damaged_message(other):
            return

        separator = self.separate(member)
        if separator is None or len(plural.forms) < 2:
            return

        between = self.text[member.end : member.value.start]
        for missing in self.categories:
            if missing not in plural.forms:
                key = member.write_key(f"{plural.prefix}{missing}")
                slot = TextSlot(other, finish=member.value.write)
                self.add(member.value.end, member.value.end, separator, key, between, slot)

    # Descriptions

    def count_comments(self, node: MessageNode) -> None:
        """Count the texts of a value that only people read."""
        if node.text is not None:
            self.reading.kept["comments"] += 1
        for member in self.walk(node):
            self.count_comments(member.value)

    def split_described(self, root: MessageNode, keys: Sequence[str]) -> None:
        """Add the messages that stand in values of their own, beside what describes them."""
        for member in self.walk(root):
            if member.value.text is not None:
                self.add_text(member.value)
            for part in self.walk(member.value):
                if part.key in keys and part.value.text is not None:
                    self.add_text(part.value)
                elif part.key in _DESCRIPTIONS:
                    self.count_comments(part.value)

    def split_application_resources(self, root: MessageNode) -> None:
        """Add the messages of an Application Resource Bundle, in which keys with @ describe."""
        for member in self.walk(root):
            if member.key == "@@locale" and member.value.text is not None:
                value = member.value
                old, write = value.text or "", value.write
                place = LanguagePlace(
                    self.text[value.start : value.end],
                    lambda code, old=old, write=write: write(_spell_code(code, old)),
                )
                self.add(value.start, value.end, place)
            elif member.key.startswith("@"):
                for part in self.walk(member.value):
                    if part.key in _DESCRIPTIONS:
                        self.count_comments(part.value)
            else:
                self.split(member.value)


@dataclass(frozen=True)
class _Plural:
    """The forms of a plural, each under a key with the category of its number: files_one, files_other."""

    prefix: str
    forms: dict[str, MessageMember]

    def category(self, member: MessageMember) -> str:
        return member.key[len(self.prefix) :]


def _find_plurals(node: MessageNode) -> dict[str, _Plural]:
    """Return the plural that each key belongs to which is a form of one."""
    plurals: dict[str, _Plural] = {}
    for member in node.members:
        match = _SUFFIX.fullmatch(member.key)
        if match and member.value.text is not None and not (match[1] or "").endswith("_ordinal"):
            prefix = "" if match[1] is None else f"{match[1]}_"
            plurals.setdefault(prefix, _Plural(prefix, {})).forms.setdefault(match[2], member)

    found = {}
    for plural in plurals.values():
        if len(plural.forms) > 1 and "other" in plural.forms:
            for member in plural.forms.values():
                found[member.key] = plural
    return found
