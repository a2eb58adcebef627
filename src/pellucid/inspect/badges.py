"""The roles and the importance of a model's heads, as `pellucid inspect heads --badges` left them beside the model."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pellucid.bundle import WEIGHTS, Bundle
from pellucid.inspect.importance import list_heads

LARGEST_FILE = 2**23
"""Bytes of such a file at most; one of a large model has some 100 kB."""

FORMAT = 1


def badges_path(bundle: Bundle) -> Path:
    """Where the page looks for it: runs/demo/best.heads.json for runs/demo/best."""
    return bundle.directory.with_name(f"{bundle.directory.name}.heads.json")


def read_badges(bundle: Bundle) -> dict[str, Any]:
    """What stands in that file, read as a stranger's. ValueError, saying how to make it, where there is none, where it
    is of another model, or where it holds anything else than badges of these heads.
    """
    place = badges_path(bundle)
    made = f"pellucid inspect heads {bundle.directory} --source FILE --target FILE --badges {place}"
    if not place.is_file():
        raise ValueError(f"the heads of this model were not studied; run: {made}")
    if place.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{place} has more than {LARGEST_FILE:,} bytes and is no file of badges; run: {made}")
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{place} cannot be read: {error}; run: {made}") from None
    if problem := badges_problem(found, bundle):
        raise ValueError(f"{place} {problem}; run: {made}")
    return found


def badges_problem(found: object, bundle: Bundle) -> str | None:
    """What keeps a value from being the badges of this model, as the end of a sentence about its file."""
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        return "is no file of badges that this program reads"
    ours = bundle.manifest.get("files", {}).get(WEIGHTS, {}).get("sha256")
    if not ours or found.get("sha256") != ours:
        return "was made with other weights than this model has"
    fits = {
        "pairs": type(found.get("pairs")) is int,
        "loss": is_finite_number(found.get("loss")),
        "rules": is_table_of_texts(found.get("rules")),
        "heads": isinstance(found.get("heads"), list),
    }
    wrong = [name for name, good in fits.items() if not good]
    if wrong:
        return f"is damaged: {wrong[0]} is not what it should be"
    heads = found["heads"]
    if not all(isinstance(each, Mapping) and is_sound_head(each) for each in heads):
        return "is damaged: one of its heads is not what it should be"
    if sorted((each["attention"], each["head"]) for each in heads) != sorted(list_heads(bundle.model.config)):
        return "names other heads than this model has"
    return None


def is_sound_head(head: Mapping[Any, Any]) -> bool:
    """Whether one head has a name, what silence costs, its error and its roles."""
    badges = head.get("badges")
    return (
        isinstance(head.get("attention"), str)
        and type(head.get("head")) is int
        and all(is_finite_number(head.get(name)) for name in ("silent", "gradient"))
        and (head.get("error") is None or is_finite_number(head["error"]))
        and isinstance(badges, list)
        and all(isinstance(each, Mapping) and is_sound_badge(each) for each in badges)
    )


def is_sound_badge(badge: Mapping[Any, Any]) -> bool:
    """Whether one badge has a mark, a sentence and its two shares."""
    said = all(isinstance(badge.get(name), str) for name in ("mark", "says"))
    return said and all(is_finite_number(badge.get(name)) for name in ("share", "beside"))


def is_finite_number(value: object) -> bool:
    """Whether this is a number."""
    return isinstance(value, int | float) and type(value) is not bool and isfinite(value)


def is_table_of_texts(value: object) -> bool:
    """Whether this is a table of texts."""
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)
