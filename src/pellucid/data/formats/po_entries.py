"""Reads the entries of message catalogues (PO), each with its places in the file, as GNU gettext does."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# A word, a string, a comment or white space; possessive, so that no text makes a search go back.
_SYMBOL = re.compile(
    r"(?P<space>[ \t\r\f\v\ufeff]++|\n)"
    r'|"(?P<string>(?:[^"\\\n]|\\[^\n])*+)"'
    r"|(?P<word>msgctxt|msgid_plural|msgid|msgstr|domain)(?![\w])(?:[ \t]*+\[[ \t]*+(?P<form>\d{1,3})[ \t]*+\])?"
    r"|(?P<obsolete>\#~)(?![|,.:])|(?P<comment>\#[^\n]*+)"
)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "b": "\b", "a": "\a"}


@dataclass
class PoText:
    """One text of an entry: its characters, and where its word begins, its word ends and its last string ends."""

    start: int
    word_end: int
    end: int = 0
    strings: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The characters of the text."""
        return read_po_string("".join(self.strings))


@dataclass
class PoEntry:
    """An entry of a catalogue: a message, and its translation or one for each form of its plural."""

    line: int  # line on which it begins, with its comments
    # Where those before and in it stand.
    comments: list[tuple[int, int]] = field(default_factory=list)
    is_obsolete: bool = False
    is_fuzzy: bool = False
    context: PoText | None = None
    message: PoText | None = None
    plural: PoText | None = None
    translation: PoText | None = None
    forms: dict[int, PoText] = field(default_factory=dict)

    @property
    def translations(self) -> list[PoText]:
        """The translation, or, for a plural, the translations of its forms in their order."""
        if self.translation:
            return [self.translation]
        return [self.forms[form] for form in sorted(self.forms)]

    @property
    def is_header(self) -> bool:
        """Whether this is the entry without a message, which describes the catalogue."""
        if self.is_obsolete or self.context is not None or self.message is None:
            return False
        return not self.message.text

    @property
    def start(self) -> int:
        """Where the first word of the entry stands."""
        return min(text.start for text in (self.context, self.message) if text)

    def ends_before(self, word: str) -> bool:
        """Return whether this keyword begins the next entry.

        A context begins one, and so does a message, unless its context did.
        """
        if not (self.message or self.context):
            return False
        return word == "msgctxt" or (word == "msgid" and self.message is not None)


def parse_po_entries(path: str, text: str) -> Iterator[PoEntry]:
    """Yield the entries of a catalogue in their order.

    Raises ValueError for a line that fits no entry, with its number.
    """
    entry: PoEntry | None = None
    current: PoText | None = None  # what a string would go on
    line, position = 1, 0
    line_is_obsolete = False
    is_domain = False

    def refuse(reason: str) -> ValueError:
        return ValueError(f"{path}:{line}: not a message catalogue (PO): {reason}")

    while position < len(text):
        match = _SYMBOL.match(text, position)
        if match is None:
            if text[position] == '"':
                raise refuse("the quotes of this line do not fit")
            raise refuse("this line fits no entry")
        position = match.end()

        if match["space"]:
            if match["space"] == "\n":
                line += 1
                line_is_obsolete = is_domain = False
        elif match["obsolete"]:
            line_is_obsolete = True
        elif match["comment"]:
            if entry is not None and entry.translations:
                yield _complete(entry, refuse)
                entry = current = None
            entry = entry or PoEntry(line)
            entry.comments.append(match.span())
            if match["comment"].startswith(("#,", "#~,")):
                flags = match["comment"].partition(",")[2].split(",")
                entry.is_fuzzy = entry.is_fuzzy or any(flag.strip() == "fuzzy" for flag in flags)
        elif match["word"] == "domain":
            is_domain = True
        elif match["word"]:
            current = PoText(match.start(), position, position)
            word, form = match["word"], match["form"]
            if entry is not None and entry.ends_before(word):
                yield _complete(entry, refuse)
                entry = None
            entry = entry or PoEntry(line)
            entry.is_obsolete = entry.is_obsolete or line_is_obsolete
            if not _add_text(entry, word, form, current):
                raise refuse(f"{match[0]} does not belong here")
        elif not is_domain:
            if current is None:
                raise refuse("a text without msgid or msgstr before it")
            current.strings.append(match["string"])
            current.end = position

    if entry is not None and (entry.message or entry.context):
        yield _complete(entry, refuse)


def _add_text(entry: PoEntry, word: str, form: str | None, text: PoText) -> bool:
    """Put a text into its entry; return whether it belongs there."""
    if word == "msgstr" and entry.message is not None:
        if form is None and not entry.translations:
            entry.translation = text
            return True
        if form is not None and entry.translation is None and int(form) not in entry.forms:
            entry.forms[int(form)] = text
            return True
        return False

    name = {"msgctxt": "context", "msgid": "message", "msgid_plural": "plural"}.get(word, "")
    belongs = form is None and name != "" and getattr(entry, name) is None
    belongs = belongs and not entry.translations

    if word == "msgctxt":
        belongs = belongs and entry.message is None
    if word == "msgid_plural":
        belongs = belongs and entry.message is not None

    if belongs:
        setattr(entry, name, text)
    return belongs


def _complete(entry: PoEntry, refuse: Callable[[str], ValueError]) -> PoEntry:
    """Return an entry that has all its parts; raise ValueError for any other."""
    if entry.message is None or not entry.translations:
        missing = "msgstr" if entry.message else "msgid"
        raise refuse(f"the entry of line {entry.line} has no {missing}")
    return entry


def read_po_string(escaped: str) -> str:
    r"""Return the characters of a string in a catalogue.

    >>> print(read_po_string('a \\"b\\" \\x41\\101'))
    a "b" AA
    """

    def read_character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _CHARACTERS.get(code, code)

    return _ESCAPE.sub(read_character, escaped) if "\\" in escaped else escaped


def read_po_header(header: str) -> dict[str, str]:
    r"""Return the fields in the translation of the entry without a message.

    >>> read_po_header("Language: es\nContent-Type: text/plain; charset=UTF-8\n")["Language"]
    'es'
    """
    fields: dict[str, str] = {}
    for line in header.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields
