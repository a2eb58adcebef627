"""Attributes of HTML that people read or hear, those that name the language of a page, and those that keep a text."""

import re
from collections.abc import Callable, Mapping
from html import escape

from pellucid.data.languages import (
    get_language,
    is_language_code,
    is_same_language,
    list_spellings,
    split_code,
)
from pellucid.localize.documents.html_templates import escape_page_text, list_value_items
from pellucid.localize.documents.html_tokens import Attribute, split_names
from pellucid.localize.documents.slots import LanguagePlace, Part, Parts, make_slot

RELEVANT = re.compile(
    r"alt|title|placeholder|label|description|text|summary|abbr|value|content|lang|translate|dir|class|srcdoc|standby|epub:type|^<html",
    re.IGNORECASE,
)
"""Found in each tag with an attribute that matters here, so that the others need not be read."""

# Attributes that are shown or spoken, and the elements whose they are; "" stands for all.
_READABLE: dict[str, tuple[str, ...]] = {
    "alt": ("img", "area", "input", "applet"),
    "title": ("",),
    "placeholder": ("input", "textarea"),
    "label": ("track", "option", "optgroup", "menuitem"),
    "summary": ("table",),
    "abbr": ("th",),
    "aria-label": ("",),
    "aria-description": ("",),
    "aria-placeholder": ("",),
    "aria-roledescription": ("",),
    "aria-valuetext": ("",),
    "standby": ("object",),
    "value": ("input",),
    "content": ("meta",),
}
_NOT_READABLE = {("link", "title"), ("style", "title")}  # these choose a style sheet by its name
_BUTTONS = ("submit", "reset", "button")
_READABLE_META = split_names("""
    description abstract og:title og:description og:image:alt og:video:alt twitter:title twitter:description
    twitter:image:alt twitter:player:alt dc.title dc.description dcterms.title dcterms.description
    dcterms.abstract headline
    """)
_LANGUAGE_META = frozenset(
    ("content-language", "language", "dc.language", "dcterms.language", "og:locale")
)
_RIGHT_TO_LEFT = split_names("ar arc azb ckb dv fa he ks lrc mzn nqo pnb ps sd syr ug ur yi")
_RIGHT_TO_LEFT_SCRIPTS = split_names("adlm arab hebr nkoo rohg syrc thaa")
_PAGE_NUMBERS = frozenset(("page-list", "pagebreak"))
_NO_LANGUAGE = ("und", "mul", "mis")


def names_other_language(code: str, source: str) -> bool:
    """Whether an attribute `lang` names a language other than the source; what is no code names none."""
    if not is_language_code(code) or split_code(code)[0] in _NO_LANGUAGE:
        return False
    return not is_same_language(code, source)


def is_right_to_left(code: str) -> bool:
    """Whether a language is written from right to left.

    >>> is_right_to_left("ar"), is_right_to_left("he-IL"), is_right_to_left("az-Arab"), is_right_to_left("ur-Latn")
    (True, True, True, False)
    """
    _, rest = split_code(code)
    scripts = [part for part in rest.split("-") if len(part) == 4 and part.isalpha()]
    if scripts:
        return scripts[0] in _RIGHT_TO_LEFT_SCRIPTS
    return get_language(code) in _RIGHT_TO_LEFT


def read_language_code(attributes: Mapping[str, Attribute]) -> str | None:
    """Return the code in `lang`, or else in `xml:lang`; None where neither stands."""
    attribute = attributes.get("lang") or attributes.get("xml:lang")
    return attribute.value.strip() if attribute else None


def find_kept(attributes: Mapping[str, Attribute]) -> str | None:
    """Return why an element says that it is kept, "" for one that says to translate it, and None for any other.

    In a book, the numbers of printed pages are kept: they may be letters, as iv is.
    """
    kinds = attributes["epub:type"].value.split() if "epub:type" in attributes else ()
    if not _PAGE_NUMBERS.isdisjoint(kinds):
        return "other"

    classes = attributes["class"].value.lower().split() if "class" in attributes else ()
    wish = attributes["translate"].value.strip().lower() if "translate" in attributes else None

    if "notranslate" in classes or wish == "no":
        return "protected"
    return "" if wish in ("yes", "") else None


def split_tag(
    tag: str,
    name: str,
    attributes: Mapping[str, Attribute],
    source: str | None,
    cut_frame: Callable[[str], Parts],
) -> Parts:
    """Return a tag with slots for the texts in it and places for the language.

    `cut_frame` returns the parts of a page that stands in an attribute.
    """
    places: list[tuple[int, int, Parts]] = []
    for key, attribute in attributes.items():
        if key in ("lang", "xml:lang", "content"):
            write = _find_language_writer(key, attribute, name, attributes, source)
            if write is not None:
                place = LanguagePlace(tag[attribute.start : attribute.end], write)
                places.append((attribute.start, attribute.end, [place]))
                continue
        if (name, key) == ("iframe", "srcdoc") and attribute.quote:
            page = cut_frame(tag[attribute.start : attribute.end])
            places.append((attribute.start, attribute.end, page))
        elif _is_readable(key, name, attributes):
            places.append((attribute.start, attribute.end, _make_value_slot(tag, attribute)))

    if name == "html":
        places.append(_find_direction_place(tag, attributes))

    parts: list[Part] = []
    position = 0
    for start, end, new in sorted(places, key=lambda place: place[0]):
        parts += [tag[position:start], *new]
        position = end
    return [*parts, tag[position:]]


def _is_readable(key: str, name: str, attributes: Mapping[str, Attribute]) -> bool:
    """Whether the value of an attribute is a text for people."""
    elements = _READABLE.get(key)
    if elements is None or (name, key) in _NOT_READABLE:
        return False
    if "" not in elements and name not in elements:
        return False

    if key == "value":
        return "type" in attributes and attributes["type"].value.strip().lower() in _BUTTONS
    return key != "content" or find_meta_name(attributes) in _READABLE_META


def find_meta_name(attributes: Mapping[str, Attribute]) -> str:
    """Return the name of what an element `meta` tells, in small letters."""
    for key in ("name", "property", "itemprop", "http-equiv"):
        if key in attributes:
            return attributes[key].value.strip().lower()
    return ""


def _make_value_slot(tag: str, attribute: Attribute) -> Parts:
    """Return the value of an attribute as a slot; a value without quotation marks gets them with its translation."""
    raw = tag[attribute.start : attribute.end]
    if attribute.quote:
        return make_slot(list_value_items(raw), escape_page_text)
    return make_slot(list_value_items(raw), escape_page_text, finish='"{}"'.format)


def _find_language_writer(
    key: str,
    attribute: Attribute,
    name: str,
    attributes: Mapping[str, Attribute],
    source: str | None,
) -> Callable[[str], str] | None:
    """Return what writes the new language into an attribute that names the source; None for any other attribute."""
    code = attribute.value.strip()
    if source is None:
        return None
    if key != "content":
        return escape if is_language_code(code) and is_same_language(code, source) else None

    meta_name = find_meta_name(attributes)
    if name != "meta" or meta_name not in _LANGUAGE_META:
        return None

    is_source = is_language_code(code) and is_same_language(code, source)
    if not is_source and code.lower() not in list_spellings(source):
        return None
    return _write_locale if meta_name == "og:locale" else escape


def _write_locale(code: str) -> str:
    """Return the code of a language as the Open Graph writes it.

    >>> _write_locale("es-MX")
    'es_MX'
    """
    return escape(code.replace("-", "_"))


def _find_direction_place(tag: str, attributes: Mapping[str, Attribute]) -> tuple[int, int, Parts]:
    """Return the place of the direction of a page, which follows its language; a page without one may get it."""
    direction = attributes.get("dir")
    if direction is None:
        start = len("<html")
        place = LanguagePlace("", lambda code: ' dir="rtl"' if is_right_to_left(code) else "")
        return start, start, [place]

    raw = tag[direction.start : direction.end]
    if direction.value.strip().lower() not in ("ltr", "rtl"):  # "auto" is right for any language
        return direction.start, direction.end, [raw]
    place = LanguagePlace(raw, lambda code: "rtl" if is_right_to_left(code) else "ltr")
    return direction.start, direction.end, [place]
