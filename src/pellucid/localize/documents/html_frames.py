"""Takes pages apart that stand in an attribute of a frame (`srcdoc`), with their signs as references."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from html import unescape

from pellucid.localize.documents.slots import LETTER, LanguagePlace, Part, Parts

_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{1,8});")
# How each is written where the page has none.
_SIGNS = {"<": "<", ">": ">", '"': "&quot;", "'": "&#39;", "&": "&amp;"}


def cut_frame(raw: str, split: Callable[[str], Parts]) -> Parts | None:
    """Return the parts of the page in the value of an attribute, given what takes a page apart.

    None stands for a page whose signs are written in several ways, so
    that it could not be written again as it is.
    """
    page = unescape(raw)
    signs = {}
    for sign, reference in _SIGNS.items():
        signs[sign] = sign if sign in raw and sign != "&" else reference
    signs |= {unescape(reference): reference for reference in set(_REFERENCE.findall(raw))}
    if signs.keys() != _SIGNS.keys() or _write_signs(page, signs) != raw:
        return None

    write = partial(_write_signs, signs=signs)
    return [_wrap_part(part, write) for part in split(page)]


def _write_signs(page: str, signs: Mapping[str, str]) -> str:
    return page.translate({ord(sign): reference for sign, reference in signs.items()})


def _wrap_part(part: Part, write: Callable[[str], str]) -> Part:
    """Return a part of a page as it is written in an attribute."""
    if isinstance(part, str):
        return write(part)
    if isinstance(part, LanguagePlace):
        return LanguagePlace(write(part.original), lambda language: write(part.name(language)))
    # What a text is joined from is written at its end, and once; what stood in its place is not
    # joined again.
    original = None
    if part.original is not None:
        original = [_wrap_part(inner, write) for inner in part.original]
    return replace(part, original=original, finish=lambda text: write(part.finish(text)))


def keep_frame(raw: str, kept: Counter[str]) -> Parts:
    """Return the page in an attribute as it is, and count it if it has words."""
    kept["other"] += LETTER.search(raw) is not None
    return [raw]
