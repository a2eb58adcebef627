"""Models of a server by their languages: loaded when they are needed, and anew when they were replaced on disk."""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from pellucid.api import Model
from pellucid.data.languages import is_language_code, is_same_variety, write_standard_code
from pellucid.data.tokenizer import UNK, Tokenizer, strip_eos
from pellucid.decode.terms.required import joins_word
from pellucid.serve.bodies import Refusal
from pellucid.serve.settings import Languages, describe_missing_direction, language_name
from pellucid.store.atomic import directory_identity
from pellucid.store.manifest_checks import read_directions, read_languages


@dataclass(frozen=True, eq=False)
class Direction:
    """A model that a server offers: between which languages it translates, and how it is loaded.

    `tokenizer` tells which words the model knows while the model itself is not loaded.
    """

    languages: Languages
    tokenizer: Tokenizer
    load: Callable[[], Model]
    # Where it lies, to notice that it was replaced; None for a model that is only in memory.
    directory: Path | None = None
    # For a direction of a multilingual model: that model, which is
    # in memory once for all of its directions.
    base: "Direction | None" = None
    # What the model said of its languages when the server
    # began; one that replaces it must say the same.
    manifest: Mapping[str, Any] | None = None

    def split(self, manifest: Mapping[str, Any]) -> "list[Direction]":
        """Return the directions of a multilingual model, or only the one that `languages` names; otherwise this one.

        Raises ValueError for languages that it does not translate between.
        """
        codes = [Languages(*pair) for pair in read_directions(manifest)]
        if not codes:
            return [self]
        if self.languages.are_named:
            # The very code before another one of its language:
            # "pt-BR" before "pt", and "eng" for "en".
            source, target = self.languages.source, self.languages.target
            fitting = [languages for languages in codes if languages.fit(source, target)]
            if not fitting:
                raise ValueError(describe_missing_direction(codes, source, target))
            codes = [self.languages] if self.languages in codes else fitting[:1]

        return [replace(self, languages=languages, base=self) for languages in codes]

    def find_other_languages(
        self, manifest: Mapping[str, Any], served: Iterable[Languages]
    ) -> str | None:
        """Return what a model in its place translates, where that is something else; None where it may be served.

        `served` are the languages in which this direction is offered.
        """
        if self.manifest is None:
            return None

        offered, before = _list_codes(manifest), _list_codes(self.manifest)
        is_multilingual = bool(manifest.get("directions"))
        was_multilingual = bool(self.manifest.get("directions"))
        if is_multilingual != was_multilingual:
            fits = False
        elif is_multilingual:
            # One that has learned more languages may replace it.
            fits = {(languages.source, languages.target) for languages in served} <= set(offered)
        else:
            # The languages may have been named for it when the server began.
            named = [(languages.source, languages.target) for languages in served]
            fits = _standardise(offered) in (_standardise(before), _standardise(named))

        if fits:
            return None
        names = [f"{source} to {target}" for source, target in offered]
        return ", ".join(names) or "languages that it does not name"

    def set_language(self, model: Model) -> Model:
        """Return its model with the language to write, where that model writes several."""
        return model if self.base is None else model.into(self.languages.target)


def _list_codes(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the directions that a manifest names, each as the codes of its languages."""
    languages = read_languages(manifest)
    return read_directions(manifest) or ([languages] if languages else [])


def _standardise(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(write_standard_code(source), write_standard_code(target)) for source, target in pairs]


class Directions:
    """The models of one server; at most `most`, two or more, are in memory: the first, and the models used last.

    Every method may be called from any thread.
    """

    def __init__(self, directions: Sequence[Direction], first_model: Model, most: int):
        self.all = tuple(directions)
        self.first = self.all[0]
        self._most = most
        self._lock, self._loading = Lock(), Lock()
        # A multilingual model stands here by what its directions have in common.
        self._loaded = OrderedDict({self._first_loaded: (first_model, self._identity(self.first))})
        self.failed_reloads = 0

        # The state of its directory in which a model was last refused, so that each is told once.
        self._refused: dict[Direction, tuple[int, ...] | None] = {}

        # Each of several models must say its languages, and no two models may have the same ones.
        for number, direction in enumerate(self.all if len(self.all) > 1 else ()):
            if not direction.languages.are_named:
                raise ValueError(
                    f"{direction.directory} does not say its languages; name them: serve en:es={direction.directory}"
                )

            for other in self.all[:number]:
                if other.languages == direction.languages:
                    raise ValueError(
                        f"{other.directory} and {direction.directory} both translate {other.languages}"
                    )

    @property
    def _first_loaded(self) -> Direction:
        return self.first.base or self.first

    @property
    def loaded(self) -> int:
        """Number of models in memory."""
        with self._lock:
            return len(self._loaded)

    @property
    def first_model(self) -> Model:
        """The model of the first direction as it is in memory, which is always there."""
        with self._lock:
            return self.first.set_language(self._loaded[self._first_loaded][0])

    def model(self, direction: Direction) -> Model:
        """Return the model of a direction, which is loaded if it is not in memory or lies on disk in a newer form.

        That may take seconds. If a newer form cannot be loaded, or is of other languages, the one
        in memory goes on; raises `Refusal` if none is in memory. The log says why.
        """
        return direction.set_language(self._load(direction.base or direction))

    def _load(self, direction: Direction) -> Model:
        if model := self._current(direction):
            return model
        with self._loading:  # one at a time; meanwhile models in memory are given out as before
            if model := self._current(direction):  # loaded while this thread waited
                return model
            identity = self._identity(direction)
            try:
                model = self._load_fitting(direction)
            except (ValueError, OSError) as error:
                with self._lock:
                    kept, _ = self._loaded.get(direction, (None, None))
                self._tell_once(direction, identity, error, goes_on=kept is not None)
                if kept is None:
                    languages = " and ".join(map(str, self._served_as(direction)))
                    state = "is away" if identity is None else "cannot be used"
                    raise Refusal(
                        503,
                        f"the model for {languages} {state} at the moment; the log of the server says why",
                    ) from None
                # Not tried again until the directory changes once more.
                model = kept

            with self._lock:
                self._loaded[direction] = model, identity
                self._loaded.move_to_end(direction)
                # The page looks into the first model, so that one stays.
                while len(self._loaded) > max(self._most, 2):
                    oldest = next(one for one in self._loaded if one is not self._first_loaded)
                    del self._loaded[oldest]

            return model

    def _load_fitting(self, direction: Direction) -> Model:
        """Load a model; raise ValueError for one of other languages than those it is served for."""
        model, served = direction.load(), self._served_as(direction)
        if (others := direction.find_other_languages(model.manifest, served)) is not None:
            raise ValueError(
                f"it translates {others}, and is served for {' and '.join(map(str, served))}"
            )
        return model

    def _served_as(self, direction: Direction) -> list[Languages]:
        return [one.languages for one in self.all if (one.base or one) is direction]

    def _tell_once(
        self,
        direction: Direction,
        identity: tuple[int, ...] | None,
        error: Exception,
        goes_on: bool,
    ) -> None:
        """Log and count that a model cannot be used, once for each state of its directory."""
        if direction in self._refused and self._refused[direction] == identity:
            return
        self._refused[direction] = identity
        self.failed_reloads += 1
        then = "requests for it are told to come again (503)"
        if goes_on:
            then = "the one in memory goes on"
        logging.getLogger("pellucid.serve").warning(
            "the model in %s is refused: %s; %s", direction.directory, error, then
        )

    def _current(self, direction: Direction) -> Model | None:
        """Return the model of a direction if it is in memory in its newest form."""
        identity = self._identity(direction)
        with self._lock:
            model, loaded_identity = self._loaded.get(direction, (None, None))
            # A directory that is gone at this moment may be about to be replaced.
            if model is None or identity not in (None, loaded_identity):
                return None
            self._loaded.move_to_end(direction)
            return model

    def _identity(self, direction: Direction) -> tuple[int, ...] | None:
        return None if direction.directory is None else directory_identity(direction.directory)

    def find(self, source: str, target: str, texts: Sequence[str] = ()) -> Direction:
        """Return the direction between two languages; with "auto", the one that knows most words of the texts.

        Raises `Refusal` for languages between which nothing is translated here.
        """
        if not self.first.languages.are_named:
            # Such a model takes all languages; what is no code would stand in the names of files.
            for side, code in (("source", source), ("target", target)):
                if not is_language_code(code) and (side, code) != ("source", "auto"):
                    raise Refusal(
                        422, f"{side}: {code!r:.40} is not a language code; write es, spa or pt-BR"
                    )

        fitting = [direction for direction in self.all if direction.languages.fit(source, target)]
        if not fitting:
            who = "this model" if len(self.all) == 1 else "this server"
            if self.stays_same(source, target):
                language = language_name(write_standard_code(source))
                raise Refusal(
                    422,
                    f"source and target are one language, {language}, which {who} does not translate into itself; "
                    "name another target",
                )
            raise Refusal(
                422,
                describe_missing_direction(
                    (one.languages for one in self.all), source, target, who
                ),
            )

        if len(fitting) == 1:
            return fitting[0]
        return max(fitting, key=lambda direction: measure_known_words(direction.tokenizer, texts))

    def stays_same(self, source: str, target: str) -> bool:
        """Whether texts are asked for in their own language, which is one of those known here."""
        if source == "auto" or not is_same_variety(source, target):
            return False
        if any(direction.languages.fit(source, target) for direction in self.all):
            return False
        own = [code for code in self.targets if is_same_variety(code, source)]
        return any(is_same_variety(code, target) for code in own)

    def detect(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the languages that the models read, each with the percentage of words known, the best known first."""
        sources: dict[str, float] = {}
        for direction in self.all:
            code = write_standard_code(direction.languages.source)
            known = measure_known_words(direction.tokenizer, texts)
            sources[code] = max(sources.get(code, 0.0), known)
        return sorted(sources.items(), key=lambda item: -item[1])

    @property
    def targets(self) -> dict[str, list[str]]:
        """Codes of all languages, as most programs write them, each with those into which it is translated here."""
        pairs = []
        for direction in self.all:
            source, target = direction.languages.source, direction.languages.target
            pairs.append((write_standard_code(source), write_standard_code(target)))

        targets: dict[str, list[str]] = {}
        for source, target in pairs:
            targets.setdefault(source, []).append(target)
        for _, target in pairs:
            targets.setdefault(target, [])
        return targets


_WORD = re.compile(r"[^\W\d_]+")


def measure_known_words(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """Return how many percent of the words of these texts the source vocabulary knows; 0 for texts without a word.

    A word is known that is a single piece, for only words of the training text become one. Where
    words have no pieces of their own, in vocabularies of single characters and in scripts without
    spaces, it is enough that all of its characters have one.
    """
    words = [word for text in texts for word in _WORD.findall(text)]
    known = 0
    for word, ids in zip(words, tokenizer.encode_source_text(words), strict=True):
        # Without EOS, and without the mark of a word's beginning where it is a piece of its own.
        names = [name for name in tokenizer.source_pieces(strip_eos(ids)) if name != "▁"]
        if tokenizer.config.kind == "char" or not all(map(joins_word, word)):
            has_bytes = any(re.fullmatch("<0x[0-9A-F]{2}>", name) for name in names)
            known += UNK not in ids and not has_bytes
        else:
            known += len(names) == 1 and UNK not in ids

    return round(100 * known / len(words), 1) if words else 0.0
