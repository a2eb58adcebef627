"""Judges the states of segments: states in XLIFF 1.2 and 2, and in Trados (SDLXLIFF), memoQ and Phrase files."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

UNTRANSLATED = ("new", "needs-translation", "initial")
"""States of a target that nobody has translated yet, even if it has a text; XLIFF 2 calls this state "initial"."""

PO_HEADER = "x-gettext-domain-header"
"""What `restype` says of a unit that holds the header of a message catalogue."""

_GOOD = ("translated", "reviewed", "final", "signed-off")
_REVIEWED = ("reviewed", "final", "signed-off")
# Words in states that tools and projects have made up for themselves.
_UNFIT_WORD = re.compile(
    r"(?<![a-z])(?:draft|fuzzy|machine|a?mt|nmt|needs|pellucid|pretranslated|reject(?:ed)?|suggestion|unapproved"
    r"|unconfirmed|unfinished|unreviewed|untranslated|mtsuggestion)(?![a-z])"
)

TRADOS, MEMOQ, PHRASE = "Trados", "memoQ", "Phrase"
_TOOLS = {
    "sdl.com": TRADOS,
    "mqxliff": MEMOQ,
    "memoq": MEMOQ,
    "memsource": PHRASE,
    "phrase.com": PHRASE,
}

_TRADOS_GOOD = ("translated", "approvedtranslation", "approvedsignoff")
_MEMOQ_GOOD = re.compile("confirmed|proofread|ac?knowledged|reviewed|signedoff")
_MACHINE_ORIGINS = ("mt", "nmt", "amt", "machine-trans", "neuralmt", "adaptivemt")


@dataclass(frozen=True)
class SegmentState:
    """The state of one translation as its file tells it; "" where it says nothing."""

    state: str = ""
    qualifier: str = ""
    sub_state: str = ""
    approved: str = ""
    tool: str = ""
    """The program whose own state this is, if one of those that are known has written one."""
    tool_state: str | None = None
    """`conf` of Trados, `mq:status` of memoQ, `m:confirmed` of Phrase; None where the segment has none."""
    origin: str = ""

    def explain_unfit(self) -> str | None:
        """Return why nobody stands by the translation yet (a draft, rejected), or None."""
        if problem := self._explain_tool() or self._explain_standard():
            return problem
        if self.approved == "no" and not self.state and not self.tool_state:
            return 'approved="no" and no state'
        return None

    def _explain_tool(self) -> str | None:
        """Return what the state of a program says against the translation."""
        machine = ", machine translation" if self.origin.lower() in _MACHINE_ORIGINS else ""
        if self.tool_state is None:
            is_unapproved = self.tool and machine and self.approved != "yes"
            return f"the origin {self.origin}" if is_unapproved else None

        plain = re.sub("[^a-z0-9]", "", self.tool_state.lower())
        if self.tool == TRADOS and plain not in _TRADOS_GOOD:
            return f"the state {self.tool_state or 'Unspecified'} of Trados{machine}"

        is_bad = "unconfirmed" in plain or "reject" in plain
        if self.tool == MEMOQ and (is_bad or not _MEMOQ_GOOD.search(plain)):
            return f"the state {self.tool_state or 'unknown'} of memoQ"
        if self.tool == PHRASE and plain in ("", "0", "false", "no"):
            return f"not confirmed in Phrase{machine}"
        return None

    def _explain_standard(self) -> str | None:
        """Return what a state of XLIFF says against the translation."""
        state, qualifier = self.state.lower(), self.qualifier.lower()

        if state in UNTRANSLATED or state.startswith("needs-"):
            return f"the state {self.state}"
        if state and state not in _GOOD and _UNFIT_WORD.search(state):
            return f"the state {self.state}"

        if qualifier.startswith("rejected"):
            return f"the state qualifier {self.qualifier}"
        # What a memory or a machine proposed is good where a person has approved it.
        if state in _REVIEWED or self.approved == "yes" or self.tool_state is not None:
            return None
        is_proposal = qualifier in ("leveraged-mt", "mt-suggestion", "tm-suggestion", "fuzzy-match")
        if is_proposal or (qualifier.startswith("x-") and _UNFIT_WORD.search(qualifier)):
            return f"the state qualifier {self.qualifier}"
        if _UNFIT_WORD.search(self.sub_state.lower()):
            return f"the substate {self.sub_state}"
        return None


def name_tool(namespace: str) -> str:
    """Return which of the known programs writes attributes in a namespace; "" for none.

    >>> name_tool("MQXliff"), name_tool("http://sdl.com/FileTypes/SdlXliff/1.0"), name_tool("urn:oasis:names:tc:xliff")
    ('memoQ', 'Trados', '')
    """
    return next((tool for part, tool in _TOOLS.items() if part in namespace.lower()), "")


def inherit_translate(own: Iterable[str | None]) -> bool:
    """Whether a text is to be translated, by the attributes `translate` around it from the innermost outwards.

    >>> inherit_translate(["yes", "no"]), inherit_translate([None, "no"]), inherit_translate([None])
    (True, False, True)
    """
    return next((value.strip().lower() != "no" for value in own if value), True)


def is_protected_mark(attributes: Mapping[str, str]) -> bool | None:
    """Whether a mark in a text protects what is in it, by its attributes; None where it says neither yes nor no."""
    kind, translate = attributes.get("mtype", ""), attributes.get("translate", "")
    if kind in ("protected", "x-its-translate-no") or translate == "no":
        return True
    return False if kind == "x-its-translate-yes" or translate == "yes" else None
