"""Knows which elements of HTML are open at a place, as browsers build them, and what of a page must be kept."""

from collections import defaultdict
from dataclasses import dataclass

from pellucid.localize.documents.html_tokens import split_names

VOID_ELEMENTS = split_names("area base br col embed hr img input link meta param source track wbr")
_DRAWINGS = ("svg", "math")
# Elements of SVG and MathML whose content is HTML again, and tags of HTML that end any other.
_HTML_NAMES = split_names("foreignobject desc title mi mo mn ms mtext annotation-xml")
_HTML_IN_DRAWINGS = frozenset(f"drawn:{name}" for name in _HTML_NAMES)
_END_DRAWINGS = split_names("""
    b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta nobr
    ol p pre ruby s small span strong strike sub sup table tt u ul var
    """)

_MARKERS = split_names("applet caption td th marquee object template")
_FORMATTING = split_names("a b big code em font i nobr s small strike strong tt u")
_CLOSE_PARAGRAPH = split_names("""
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 h4
    h5 h6 header hgroup hr listing main menu nav ol p plaintext pre search section summary table ul xmp
    """)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_IN_HEAD = split_names(
    "base basefont bgsound link meta noframes noscript script style template title head html body"
)
_SPECIAL = (
    _CLOSE_PARAGRAPH
    | _MARKERS
    | split_names("""
        area base basefont bgsound body br button col colgroup dd dt embed frame frameset head html iframe img input
        keygen li link meta noembed noframes noscript param script select source style tbody textarea tfoot thead title
        tr track wbr
        """)
)

# Elements beyond which an end tag does not reach: elements of the standard's scopes, and elements
# that end a search upwards.
_SCOPE = _MARKERS | _HTML_IN_DRAWINGS | {"html", "table"}
_BARRIERS = {
    "any": _SCOPE,
    "list": _SCOPE | {"ol", "ul"},
    "button": _SCOPE | {"button"},
    "table": frozenset(("html", "table", "template")),
    "special": _SPECIAL | _HTML_IN_DRAWINGS,
    "item": (_SPECIAL | _HTML_IN_DRAWINGS) - {"address", "div", "p"},
}
# Where a part of a ruby begins, an open part with one of these names ends.
_ENDED_RUBY_PARTS = {
    **dict.fromkeys(("rt", "rp"), ("rb", "rt", "rp")),
    **dict.fromkeys(("rb", "rtc"), ("rb", "rt", "rp", "rtc")),
}
_PARTS_OF_TABLES = {
    **dict.fromkeys(("td", "th"), ("td", "th")),
    "tr": ("tr", "caption", "colgroup"),
    **dict.fromkeys(
        ("tbody", "thead", "tfoot", "caption", "colgroup"),
        ("tbody", "thead", "tfoot", "caption", "colgroup"),
    ),
}
_MOST_BETWEEN = 100  # elements between a formatting element and a block in it that are looked at


@dataclass(eq=False, slots=True)
class HtmlElement:
    """An open element, and what it says about its content."""

    name: str
    # Why its content is kept, "" where it is translated; None where its parent decides.
    kept_by_itself: str | None
    # Whether its content is in a language that is not translated; None as above.
    is_foreign: bool | None
    barriers: dict[str, int]
    is_drawing: bool  # whether its content is SVG or MathML, not HTML
    kept: str = ""  # why its content is kept, by all that stands around it
    kept_attributes: str = ""
    is_open: bool = True


class OpenElements:
    """Elements that are open at a place in a page."""

    def __init__(self) -> None:
        self._stack: list[HtmlElement] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        # Formatting that a browser opens again after its parent is closed;
        # None stands at the edge of a table's cell.
        self._formatting: list[HtmlElement | None] = []
        self._with_kept: list[HtmlElement] = []
        self._with_language: list[HtmlElement] = []

    def explain_kept(self, own: str | None = None, is_foreign: bool | None = None) -> str:
        """Return why the text here is kept, in an element that says this of itself; "" for text to translate."""
        for said in (self._with_kept, self._with_language):
            while said and not said[-1].is_open:
                said.pop()

        if own is None and self._with_kept:
            own = self._with_kept[-1].kept_by_itself
        if is_foreign is None and self._with_language:
            is_foreign = self._with_language[-1].is_foreign
        return own or ("protected" if is_foreign else "")

    def can_end_itself(self, name: str) -> bool:
        """Whether a tag of this name that ends in a slash has no content: in HTML the slash means nothing."""
        return name in _DRAWINGS or (self.is_in_drawing and name not in _END_DRAWINGS)

    @property
    def is_in_drawing(self) -> bool:
        """Whether the place is in SVG or MathML."""
        return bool(self._stack) and self._stack[-1].is_drawing

    @property
    def innermost(self) -> str:
        """Name of the element that the place is in; empty outside of all."""
        return self._stack[-1].name if self._stack and self._stack[-1].is_open else ""

    def open(
        self,
        name: str,
        own: str | None,
        is_foreign: bool | None,
        usual: str | None,
        has_content: bool,
    ) -> HtmlElement:
        """Open an element that says this of itself, and close those that it ends.

        `usual` is why the content of such elements is kept where nothing else says whether it is.
        """
        if self.is_in_drawing and name in _END_DRAWINGS:
            while self.is_in_drawing:
                self._pop_to(len(self._stack) - 1)
        is_drawn = self.is_in_drawing
        if is_drawn:
            name = f"drawn:{name}"
        else:
            self._close_before(name)
            if name not in _CLOSE_PARAGRAPH and name not in _IN_HEAD:
                self.reopen_formatting()

        kept_attributes = self.explain_kept(own, is_foreign)
        if own is None and not kept_attributes:
            own = usual

        is_drawing = name in _DRAWINGS or (is_drawn and name not in _HTML_IN_DRAWINGS)
        element = self._push(name, own, is_foreign, is_drawing)
        element.kept, element.kept_attributes = self.explain_kept(), kept_attributes

        if not has_content:
            self._pop_to(len(self._stack) - 1)
        elif name in _MARKERS:
            self._formatting.append(None)
        elif name in _FORMATTING and (own is not None or is_foreign is not None):
            self._remember_formatting(element)
        return element

    def close(self, name: str) -> HtmlElement | None:
        """Close the element that a closing tag ends, and all in it; return it, or None where there is none."""
        if not self._stack:
            return None
        if self.is_in_drawing or self._stack[-1].name in _HTML_IN_DRAWINGS:
            drawn = self._places[f"drawn:{name}"]
            if not drawn and name in _DRAWINGS:
                drawn = self._places[name]
            if drawn:
                return self._pop_to(drawn[-1])

        if name in ("html", "body"):
            return None  # what follows belongs to them all the same

        if name in _HEADINGS:
            return self._close_heading()
        if name in _FORMATTING:
            return self._close_formatting(name)

        if name in _PARTS_OF_TABLES or name == "table":
            barrier = "table"
        elif name == "p":
            barrier = "button"
        elif name == "li":
            barrier = "list"
        else:
            barrier = "any" if name in _SPECIAL else "special"

        return self._pop_to(self._places[name][-1]) if self._is_in_scope(name, barrier) else None

    def reopen_formatting(self) -> None:
        """Open formatting elements again that were closed with their parents, as a browser does before text."""
        first = len(self._formatting)
        while first and (before := self._formatting[first - 1]) is not None and not before.is_open:
            first -= 1

        for place in range(first, len(self._formatting)):
            closed = self._formatting[place]
            assert closed is not None
            opened = self._push(closed.name, closed.kept_by_itself, closed.is_foreign)
            self._formatting[place] = opened

    def leave_head(self) -> None:
        """Close the head of the page, which ends before the first text."""
        if self._places["head"]:
            self._pop_to(self._places["head"][-1])

    def _push(
        self, name: str, own: str | None, is_foreign: bool | None, is_drawing: bool = False
    ) -> HtmlElement:
        place = len(self._stack)
        above = self._stack[-1].barriers if self._stack else dict.fromkeys(_BARRIERS, -1)
        reached = {barrier: place for barrier, names in _BARRIERS.items() if name in names}

        barriers = above | reached if reached else above
        element = HtmlElement(name, own, is_foreign, barriers, is_drawing)
        self._stack.append(element)
        self._places[name].append(place)

        if own is not None:
            self._with_kept.append(element)
        if is_foreign is not None:
            self._with_language.append(element)
        return element

    def _pop_to(self, place: int) -> HtmlElement:
        """Close all elements from a place on; return the one that was there."""
        while True:
            element = self._stack.pop()
            if element.is_open:
                element.is_open = False
                self._places[element.name].pop()
                if element.name in _MARKERS:
                    self._forget_formatting_to_marker()
            if len(self._stack) == place:
                return element

    def _is_in_scope(self, name: str, barrier: str) -> bool:
        places = self._places[name]
        return bool(places) and places[-1] >= self._stack[-1].barriers[barrier]

    def _close_before(self, name: str) -> None:
        """Close what cannot go on where an element of this name begins."""
        if name not in _IN_HEAD:
            self.leave_head()

        if name in ("li", "dd", "dt"):
            for other in ("li",) if name == "li" else ("dd", "dt"):
                if self._is_in_scope(other, "item"):
                    self._pop_to(self._places[other][-1])
                    break

        closes_paragraph = name in _CLOSE_PARAGRAPH or name in ("li", "dd", "dt")
        if closes_paragraph and self._is_in_scope("p", "button"):
            self._pop_to(self._places["p"][-1])

        current = self.innermost
        if name in _HEADINGS and current in _HEADINGS:
            self._pop_to(len(self._stack) - 1)
        elif name in ("button", "a", "nobr") and self._is_in_scope(name, "any"):
            self.close(name)
        elif name in ("option", "optgroup"):
            if self._is_in_scope("option", "special" if not self._places["select"] else "any"):
                self._pop_to(self._places["option"][-1])
            if name == "optgroup" and self._is_in_scope("optgroup", "any"):
                self._pop_to(self._places["optgroup"][-1])
        elif current in _ENDED_RUBY_PARTS.get(name, ()):
            self._pop_to(len(self._stack) - 1)
        elif name in _PARTS_OF_TABLES:
            self._close_parts_of_table(name)

    def _close_parts_of_table(self, name: str) -> None:
        """Close the cells, rows and groups of the table that end where one of these names begins."""
        ended = ["td", "th", *_PARTS_OF_TABLES[name]]
        if name not in ("td", "th"):
            ended.append("tr")

        places = [self._places[other][-1] for other in ended if self._is_in_scope(other, "table")]
        if places:
            self._pop_to(min(places))

    def _close_heading(self) -> HtmlElement | None:
        """Close the heading that is open: a closing tag of any heading ends it."""
        open_ones = [heading for heading in _HEADINGS if self._is_in_scope(heading, "any")]
        places = [self._places[heading][-1] for heading in open_ones]
        return self._pop_to(max(places)) if places else None

    def _close_formatting(self, name: str) -> HtmlElement | None:
        """Close a formatting element; a block inside it goes on without it."""
        if not self._is_in_scope(name, "any"):
            self._forget_formatting(name)
            return None

        place = self._places[name][-1]
        element = self._stack[place]
        self._forget_formatting(name)
        if self._stack[-1].barriers["special"] < place:
            return self._pop_to(place)
        element.is_open = False
        self._places[name].pop()

        for between in range(place + 1, min(len(self._stack), place + _MOST_BETWEEN)):
            other = self._stack[between]
            if other.name in _SPECIAL:
                break
            is_last = other.is_open and self._places[other.name][-1] == between
            if is_last and other.name not in _FORMATTING:
                other.is_open = False
                self._places[other.name].pop()
        return element

    def _remember_formatting(self, element: HtmlElement) -> None:
        """Remember a formatting element, to open it again; of more than three equal ones the first is forgotten."""
        equal: list[int] = []
        said = (element.name, element.kept_by_itself, element.is_foreign)
        for place in range(len(self._formatting) - 1, -1, -1):
            other = self._formatting[place]
            if other is None:
                break
            if (other.name, other.kept_by_itself, other.is_foreign) == said:
                equal.append(place)

        if len(equal) == 3:
            del self._formatting[equal[-1]]
        self._formatting.append(element)

    def _forget_formatting(self, name: str) -> None:
        for place in range(len(self._formatting) - 1, -1, -1):
            other = self._formatting[place]
            if other is None:
                return
            if other.name == name:
                del self._formatting[place]
                return

    def _forget_formatting_to_marker(self) -> None:
        while self._formatting and self._formatting.pop() is not None:
            pass
