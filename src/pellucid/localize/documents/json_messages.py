"""Takes messages of programs in JSON apart: nested keys, i18next, ARB, and messages of browser extensions."""

import json
import re
from collections.abc import Callable
from functools import partial

from pellucid.localize.documents.document import Document
from pellucid.localize.documents.messages import MessageMember, MessageNode, split_messages
from pellucid.localize.documents.plain import decode_text
from pellucid.localize.documents.reading import DocumentReading

_DEEPEST = 100  # values in one another
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]++')


def read_json_messages(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a file of messages in JSON."""
    text, encoding = decode_text(name, content)
    begin = len(text) - len(text.removeprefix("\ufeff"))
    try:
        value = json.loads(text[begin:])
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at column {error.colno}"
        raise ValueError(f"{name}:{error.lineno}: not JSON: {reason}") from None
    except (RecursionError, ValueError):
        raise ValueError(
            f"{name} is no JSON that can be read: too deep, or with a number too long"
        ) from None

    if not isinstance(value, dict | list):
        raise ValueError(f"{name} holds a single value; expected an object with messages")
    del value

    # A file that escapes all letters outside ASCII keeps doing so.
    escapes = text[begin:].isascii() and re.search(r"\\u(?!00[0-7])", text) is not None
    root = _parse_values(name, text, begin, partial(json.dumps, ensure_ascii=escapes), reading)

    def separate(member: MessageMember) -> str:
        return f",{_find_space(text, member.start)}"

    parts = split_messages(name, text, root, separate, reading)
    return Document([parts], lambda bodies: bodies[0].encode(encoding), reading)


def _find_space(text: str, end: int) -> str:
    """Return the white space that stands before a place."""
    start = end
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:end]


def _parse_values(
    name: str, text: str, begin: int, write: Callable[[str], str], reading: DocumentReading
) -> MessageNode:
    """Return the values of a well-formed text with their places."""
    root = MessageNode(begin, begin)
    open_nodes: list[MessageNode] = [root]
    key: tuple[str, int, int] | None = None  # of the value that comes next

    for number, token in enumerate(_TOKEN.finditer(text, begin)):
        if number % 1000 == 0:
            reading.go_on()
        sign = token[0][0]
        start, end = token.span()

        node = open_nodes[-1]
        if sign in ",:":
            continue

        if sign in "}]":
            node.end = end
            open_nodes.pop()
            continue

        if sign == '"' and node.has_keys and key is None:
            key = json.loads(token[0]), start, end
            continue

        if sign == '"':
            value = MessageNode(start, end, json.loads(token[0]), write)
        else:
            value = MessageNode(start, end, has_keys=sign == "{")

        key_text, key_start, key_end = key or ("", start, start)
        key = None
        node.members.append(MessageMember(key_text, key_start, key_end, value, write))

        if sign in "{[":
            open_nodes.append(value)
            if len(open_nodes) > _DEEPEST:
                raise ValueError(f"{name} has more than {_DEEPEST} values in one another")
    return root.members[0].value
