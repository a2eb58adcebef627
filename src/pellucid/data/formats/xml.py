"""Reads the units of an XML file one after another, in bounded memory, and fetches or expands nothing."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pellucid.data.formats.units import Skip, Unit
from pellucid.data.formats.xml_characters import (
    FORBIDDEN,
    CharacterFilter,
    EncodingCheck,
    find_bad_character,
)
from pellucid.data.lines import DAMAGES, describe_damage, open_decompressed

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute `xml:lang`, as lxml names it."""

# The most bytes of XML up to the end of the next unit, so that a file without units cannot fill the
# memory.
LARGEST_UNIT = 16 * 2**20


class _MeteredStream:
    """A stream for the parser, which refuses to read too far without a unit, and says that gzip is damaged.

    Characters that XML cannot hold are replaced, so that one of
    them costs its unit and not the whole file.
    """

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path, self.since_unit = stream, path, 0
        self._filter, self._encoding = CharacterFilter(), EncodingCheck(path)

    def read(self, size: int) -> bytes:
        content, is_end = b"", False
        while not content and not is_end:
            try:
                chunk = self.stream.read(size)
            except DAMAGES as error:
                raise ValueError(f"{self.path}: {describe_damage(error)}") from None
            is_end = not chunk
            self._encoding.take(chunk)
            content = self._filter.clean(chunk)
        self.since_unit += len(content)
        if self.since_unit > LARGEST_UNIT:
            raise ValueError(
                f"{self.path}: no unit ends within {LARGEST_UNIT:,} bytes; does it hold sentence pairs?"
            )
        return content


def parse_units(
    path: str, root: str | tuple[str, ...], units: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield ("end", element) for each unit of an XML file, and ("start", element) for it, the root and the others.

    A root may have one of several names.

    A unit is complete when it ends, and is removed from memory after that. Names are without
    namespace. Raises ValueError for XML that is not well-formed or declares entities, for another
    root, and for a unit of extreme size.
    """
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

    roots = (root,) if isinstance(root, str) else root
    with open_decompressed(path) as file:
        stream = _MeteredStream(file, path)
        # The first start event is the root's, under any name; later ones are only of elements that
        # are asked for.
        names = {*roots, *units, *others}
        # Nothing of the file is expanded or fetched; the limits of libxml2 on depth and on expansion
        # stay on.
        events = etree.iterparse(
            stream,  # pyright: ignore[reportArgumentType]
            events=("start", "end"),
            tag=tuple(f"{{*}}{name}" for name in names),
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )

        checked = False
        try:
            for event, element in events:
                if not checked:
                    _refuse_foreign_root(path, roots, element)
                    checked = True
                name = local_name(element)
                if event == "start" or name in units:
                    yield event, element
                if event == "end" and name in units:
                    stream.since_unit = 0
                    element.clear()
                    for node in (element, *element.iterancestors()):
                        while node.getprevious() is not None:
                            del node.getparent()[0]

        except etree.XMLSyntaxError as error:
            reason = re.sub(r"(, line \d+, column \d+)?( \(.*, line \d+\))?$", "", str(error.msg))
            if "not proper UTF-8" in reason or "ncoding" in reason or "conversion" in reason:
                reason = (
                    "its bytes are not in the encoding that it names (UTF-8 where it names none); write the true one "
                    'into its first line, such as encoding="windows-1252"'
                )
            reason = " ".join(reason.split())
            raise ValueError(f"{path}:{error.lineno}: not well-formed XML: {reason}") from None

        if not checked:
            _refuse_foreign_root(path, roots, events.root)


def _refuse_foreign_root(path: str, roots: tuple[str, ...], element: Any) -> None:
    """Raise ValueError if the file of an element declares entities, or has a root of another name."""
    tree = element.getroottree()

    dtd = tree.docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        raise ValueError(
            f"{path} declares entities of its own (<!ENTITY ...>), which can blow up a file or reach for others; "
            "remove them"
        )

    if local_name(tree.getroot()) not in roots:
        expected = " or ".join(f"<{root}>" for root in roots)
        raise ValueError(f"{path} begins with <{local_name(tree.getroot())}>, expected {expected}")


def local_name(element: Any) -> str:
    """Return the name of an element without its namespace; "" for what is no element."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def make_unit(number: int, source: str, target: str, line: int | None) -> Unit:
    """Return a unit of an XML file; one with a character that XML cannot hold has a problem in place of its pair."""
    if bad := find_bad_character(source) or find_bad_character(target):
        return Unit(number, line=line, problem=f"{bad}, which XML cannot hold")
    return Unit(number, source, target, line)


def escape_xml(text: str) -> str:
    """Escape text for the content of an element or an attribute in double quotes."""
    # A carriage return as it is would be read as a line feed.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("\r", "&#13;")


def without_unfit_for_xml(units: Iterable[Unit], skip: Skip) -> Iterator[Unit]:
    """Yield the units that XML can hold; the others are skipped."""
    for unit in units:
        if bad := FORBIDDEN.search(unit.source) or FORBIDDEN.search(unit.target):
            skip(unit, f"U+{ord(bad[0]):04X}, which XML cannot hold")
        else:
            yield unit
