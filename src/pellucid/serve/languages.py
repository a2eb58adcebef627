"""Which languages the model is for, as far as somebody said so, and what they are called."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
UNNAMED = ("x-source", "x-target")
"""Tags for private use (BCP 47, section 2.2.7): what a model that names no languages reads, and what it writes."""


@dataclass(frozen=True)
class Languages:
    """The codes of what the model reads and writes. Where they are not named, it is asked for by any names."""

    source: str = UNNAMED[0]
    target: str = UNNAMED[1]

    @classmethod
    def of(cls, manifest: Mapping[str, Any], source: str | None = None, target: str | None = None) -> "Languages":
        """Those given, or else those of the model's manifest, if it names any; ValueError for what is no code."""
        if (source is None) != (target is None):
            raise ValueError("one language is named; name what is read and what is written: --from en --to es")
        stored = manifest.get("languages")
        if source is None and isinstance(stored, Mapping):
            source, target = stored.get("source"), stored.get("target")
        if source is None or target is None:
            return cls()
        for code in (source, target):
            if not isinstance(code, str) or not CODE.fullmatch(code):
                raise ValueError(f"{code!r:.40} is no language code; write en, es or pt-BR")
        return cls(source, target)

    @property
    def are_named(self) -> bool:
        """Whether it is known which they are."""
        return (self.source, self.target) != UNNAMED

    def problem(self, source: str, target: str) -> str | None:
        """What is wrong with asking for these two; "auto" is whatever the model reads."""
        if not self.are_named or (
            (source == "auto" or is_same_language(source, self.source)) and is_same_language(target, self.target)
        ):
            return None
        return f"this model translates from {self.source} to {self.target}, not from {source!r:.40} to {target!r:.40}"

    def as_list(self) -> list[dict[str, Any]]:
        """What LibreTranslate's clients choose from: the model has one direction."""
        return [
            {"code": self.source, "name": language_name(self.source), "targets": [self.target]},
            {"code": self.target, "name": language_name(self.target), "targets": []},
        ]


def is_same_language(asked: str, ours: str) -> bool:
    """Whether two codes may mean the same language: one of them may leave out the region or the script.

    >>> is_same_language("pt", "pt-BR"), is_same_language("PT-br", "pt-BR"), is_same_language("pt-PT", "pt-BR")
    (True, True, False)
    """
    short, long = sorted((asked.lower(), ours.lower()), key=len)
    return long == short or long.startswith(f"{short}-")


def language_name(code: str) -> str:
    """The English name of a language; the code where there is none here.

    >>> language_name("es"), language_name("pt-BR"), language_name("tlh")
    ('Spanish', 'Portuguese (BR)', 'tlh')
    """
    if code in UNNAMED:
        return f"the {code.removeprefix('x-')} language of this model, which is not named"
    language, _, region = code.partition("-")
    name = NAMES.get(language.lower())
    return code if name is None else f"{name} ({region})" if region else name


NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "gn": "Guarani",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "qu": "Quechua",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sv": "Swedish",
    "sw": "Swahili",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
