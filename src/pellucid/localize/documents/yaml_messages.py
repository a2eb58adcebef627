"""Takes messages of programs in YAML apart, such as Rails' messages; comments, order and quotes stay as they are."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.localize.documents.document import Document
from pellucid.localize.documents.messages import MessageMember, MessageNode, split_messages
from pellucid.localize.documents.plain import decode_text
from pellucid.localize.documents.reading import DocumentReading

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

_DEEPEST = 100  # values in one another
_STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")  # the anchor and the type of a value
# A text that needs no quotes, with anything around it.
_PLAIN = re.compile(r"""(?![-?:,\[\]{}#&*!|>'"%@`\s])(?!.*(?::\s|\s\#))[^\n\r\t]*[^\s:]""")
# JSON may hold them, YAML reads them otherwise.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
_FARTHEST = 200  # characters from the beginning of a line in which a form of a plural is added


def read_yaml_messages(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a file of messages in YAML."""
    text, encoding = decode_text(name, content)
    begin = len(text) - len(text.removeprefix("\ufeff"))
    root = _YamlReader(name, text, begin, reading).read()
    line_end = "\r\n" if "\r\n" in text else "\n"

    def separate(member: MessageMember) -> str | None:
        line = text.rfind("\n", max(0, member.start - _FARTHEST), member.start) + 1
        indent = text[line : member.start]
        is_plain = text[member.end : member.value.start].strip() == ":"
        return f"{line_end}{indent}" if line and is_plain and not indent.strip(" ") else None

    parts = split_messages(name, text, root, separate, reading)
    return Document([parts], lambda bodies: bodies[0].encode(encoding), reading)


class _YamlReader:
    """One reading of a file."""

    def __init__(self, name: str, text: str, begin: int, reading: DocumentReading):
        try:
            import yaml
        except ImportError:
            install = "pip install 'pellucid[documents]'"
            raise ValueError(f"YAML needs the package PyYAML: {install}") from None
        self.yaml = yaml
        self.name = name
        self.text = text
        self.begin = begin
        self.reading = reading
        self.resolver = yaml.resolver.Resolver()

    def read(self) -> MessageNode:
        """Return the values with their places."""
        loader: Any = getattr(self.yaml, "CSafeLoader", self.yaml.SafeLoader)
        try:
            documents = self.build(self.yaml.parse(self.text[self.begin :], Loader=loader))
        except self.yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            reason = " ".join(f"{getattr(error, 'problem', None) or error}".split())
            raise ValueError(f"{self.name}{line}: not YAML: {reason:.200}") from None

        if len(documents.members) == 1:
            return documents.members[0].value
        return documents

    def build(self, events: "Iterable[Event]") -> MessageNode:
        """Return a list with the values of all documents in the file."""
        yaml = self.yaml
        root = MessageNode(self.begin, self.begin)
        open_nodes = [root]
        flows = [False]
        # Of each open value: the key whose value comes next.
        keys: list[MessageMember | None] = [None]

        for number, event in enumerate(events):
            if number % 1000 == 0:
                self.reading.go_on()

            if isinstance(event, yaml.CollectionEndEvent):
                open_nodes.pop()
                flows.pop()
                keys.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue

            value = self.read_node(event, flows[-1])
            node = open_nodes[-1]
            if node.has_keys and keys[-1] is None:
                key = event.value if isinstance(event, yaml.ScalarEvent) else ""
                keys[-1] = MessageMember(key, value.start, value.end, value, value.write)
            else:
                member = keys[-1] or MessageMember("", value.start, value.start, value)
                member.value = value
                node.members.append(member)
                keys[-1] = None

            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append(value)
                flows.append(bool(event.flow_style) or flows[-1])
                keys.append(None)
                if len(open_nodes) > _DEEPEST:
                    raise ValueError(f"{self.name} has more than {_DEEPEST} values in one another")
        return root

    def read_node(self, event: "Event", in_flow: bool) -> MessageNode:
        """Return a value with its place; its members come later."""
        yaml = self.yaml
        start, end = (mark.index + self.begin for mark in (event.start_mark, event.end_mark))
        if not isinstance(event, yaml.ScalarEvent):
            return MessageNode(start, end, has_keys=isinstance(event, yaml.MappingStartEvent))

        if (event.anchor or event.tag) and (properties := _PROPERTIES.match(self.text, start, end)):
            start = properties.end()
        if event.style in ("|", ">"):
            end = start + len(self.text[start:end].rstrip())

        node = MessageNode(start, end, write=partial(self.write_plain, in_flow=in_flow))
        if event.style == "'":
            node.write = _write_single_quoted
        elif event.style == '"':
            node.write = _write_double_quoted
        elif event.style in ("|", ">"):
            node.write = _make_block_writer(self.text[start:end], event.style)

        if self.is_text(event):
            node.text = event.value
        return node

    def is_text(self, event: "ScalarEvent") -> bool:
        """Whether a scalar is a text, and not a number, a truth value, a date or nothing."""
        if event.style in ("|", ">") and not _has_usual_indent(
            self.text[event.start_mark.index + self.begin :][:20]
        ):
            self.reading.kept["other"] += 1
            return False

        if event.tag not in (None, "!", _STRING):
            return False
        has_quotes = event.style is not None and event.style != ""
        return has_quotes or self.is_plain_text(event.value)

    def is_plain_text(self, value: str) -> bool:
        return self.resolver.resolve(self.yaml.ScalarNode, value, (True, False)) == _STRING

    def write_plain(self, text: str, in_flow: bool) -> str:
        """Return a text without quotes where it needs none."""
        is_plain = _PLAIN.fullmatch(text) is not None and self.is_plain_text(text)
        needs_quotes = not is_plain or _UNSAFE.search(text) is not None
        if needs_quotes or not text.isprintable() or (in_flow and re.search(r"[,\[\]{}?:]", text)):
            return _write_double_quoted(text)
        return text


def _write_single_quoted(text: str) -> str:
    """Return a text in single quotes, in which there are no escapes.

    >>> _write_single_quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'" if text.isprintable() else _write_double_quoted(text)


def _write_double_quoted(text: str) -> str:
    """Return a text in double quotes: YAML has the escapes of JSON, and is stricter about some characters."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _has_usual_indent(raw: str) -> bool:
    """Whether a block of lines says nothing about its indent itself.

    >>> _has_usual_indent("|-\\n a"), _has_usual_indent(">2\\n   a")
    (True, False)
    """
    return re.match(r"(?:[&!]\S*[ \t]+)*[|>][-+]?[ \t]*(?:#[^\n]*)?(?:[\r\n]|\Z)", raw) is not None


def _make_block_writer(raw: str, style: str) -> Callable[[str], str]:
    """Return what writes a text as a block of lines, with the head and the indent that the block has now."""
    head, line_end, content = re.match(r"([^\r\n]*)(\r?\n|\r|\Z)([\s\S]*)", raw).groups()  # pyright: ignore[reportOptionalMemberAccess]
    first_line = next((line for line in content.splitlines() if line.strip()), "  ")
    indent = first_line[: len(first_line) - len(first_line.lstrip(" "))]

    def write(text: str) -> str:
        lines = text.strip().split("\n")
        if not all(line.isprintable() for line in lines):
            return _write_double_quoted(text)

        if style == ">":
            # Between lines of a folded text a line end is a space, so each needs one more, and none
            # begins with space.
            folded = "\n".join(map(str.strip, lines))
            lines = re.sub(r"\n+", r"\g<0>\n", folded).split("\n")
        written = [f"{indent}{line}" if line.strip() else "" for line in lines]
        return line_end.join([head, *written])

    return write
