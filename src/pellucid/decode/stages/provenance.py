"""Says where each word of a translation comes from: the model, a term, or a unit of a memory."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain

from pellucid.data.term_spans import is_inflected
from pellucid.decode.line_segments import Line, LineSearch, TranslationTask
from pellucid.decode.translation import Translation, WordOrigin

_SEARCHED = ("eos", "length")
_LETTERS = re.compile(r"\w+")


@dataclass(frozen=True)
class NameOrigins:
    """The stage that says where the words of each translation come from.

    A line that has a term is translated again without any term, and one that was read after a unit
    of a memory without the unit. A word comes from a term, or from a unit, if it stands in its
    translation and is not there without it. `make_search` gives the search for the lines of another
    task; `reads_units` says whether the model was trained to read similar units.
    """

    task: TranslationTask
    make_search: Callable[[TranslationTask], LineSearch]
    reads_units: bool

    def __call__(self, lines: list[Line], search: LineSearch) -> list[Translation]:
        translations = search(lines)
        given = [self._list_terms(line) for line in lines]
        with_terms, with_unit = [], []
        for i, translation in enumerate(translations):
            if translation.stop in _SEARCHED:
                with_terms += [i] * bool(given[i])
                with_unit += [i] * (self.reads_units and translation.remembered is not None)

        # Text without a letter is only searched for where it has a term.
        plain = [replace(line, has_terms=False) for line in lines]
        lacking_terms = self._translate_again(plain, with_terms, terms=None)
        lacking_unit = self._translate_again(lines, with_unit, translation_memory=None)
        named = []
        for i, (line, translation) in enumerate(zip(lines, translations, strict=True)):
            words = translation.text.split()
            origins = [WordOrigin(word) for word in words]
            match = translation.remembered
            if match is not None:
                unit = WordOrigin("", "memory", match.place, match.source, match.target)
                if translation.stop == "memory":
                    origins = [replace(unit, word=word) for word in words]
                elif i in lacking_unit:
                    _name_words(origins, lacking_unit[i].text, [unit])
            if i in lacking_terms:
                _name_words(origins, lacking_terms[i].text, given[i])
            for place in range(len(line.prefix.split())):
                # The translation begins with it, with terms and units and without them.
                origins[place : place + 1] = [WordOrigin(word, "prefix") for word in words[place : place + 1]]
            named.append(replace(translation, provenance=tuple(origins)))
        return named

    def _translate_again(self, lines: Sequence[Line], chosen: Sequence[int], **without: None) -> dict[int, Translation]:
        """Return translations of the chosen lines `without` terms or a memory, by the numbers of the lines."""
        if not chosen:
            return {}
        config = replace(self.task.config, provenance=False, alignments=False)
        again = [lines[i] for i in chosen]
        task = replace(self.task, lines=again, config=config, **without)
        return dict(zip(chosen, self.make_search(task)(again), strict=True))

    def _list_terms(self, line: Line) -> list[WordOrigin]:
        """Return the origins that words of a translation may have in the terms of a line."""
        terms = self.task.terms
        if terms is None:
            return []

        origins: list[WordOrigin] = []
        for match in terms.matches(line.text):
            for target in match.targets:
                place = terms.find_place(match.source, target)
                origins.append(WordOrigin("", "term", place, match.source, target))
        return list(dict.fromkeys(origins))


def _name_words(origins: list[WordOrigin], without: str, causes: Sequence[WordOrigin]) -> None:
    """Give words that a translation lacks `without` a cause the one of the causes whose translation has them.

    A term may stand there in another form. A word that only moved comes from no cause.
    """
    words = [_list_parts(origin.word) for origin in origins]
    others = [_list_parts(word) for word in without.split()]
    counts, other_counts = Counter(chain(*words)), Counter(chain(*others))
    told = [_list_parts(cause.target) for cause in causes]
    changes = SequenceMatcher(None, others, words, autojunk=False).get_opcodes()
    for kind, _, _, start, end in changes:
        for place in range(start, end) if kind != "equal" else ():
            new = [part for part in words[place] if counts[part] > other_counts[part]]
            for cause, parts in zip(causes, told, strict=True):
                has_form = cause.origin == "term" and any(is_inflected(part, other) for part in new for other in parts)
                if has_form or not set(new).isdisjoint(parts):
                    origins[place] = replace(cause, word=origins[place].word)
                    break


def _list_parts(text: str) -> tuple[str, ...]:
    """Return what letters and digits of a text stand together, in small letters.

    >>> _list_parts("«L'Azul»,"), _list_parts("--")
    (('l', 'azul'), ())
    """
    return tuple(_LETTERS.findall(text.casefold()))
