"""The roles and the importance of a model's heads, as `pellucid inspect heads --badges` left them beside the model."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pellucid.bundle import WEIGHTS, Bundle
from pellucid.inspect.importance import heads_of

LARGEST = 2**23
"""Bytes of such a file at most; one of a large model has some 100 kB."""

FORMAT = 1


def place_of(bundle: Bundle) -> Path:
    """Where the page looks for it: runs/demo/best.heads.json for runs/demo/best."""
    return bundle.directory.with_name(f"{bundle.directory.name}.heads.json")


def badges_beside(bundle: Bundle) -> dict[str, Any]:
    """What stands in that file, read as a stranger's. ValueError, saying how to make it, where there is none, where it
    is of another model, or where it holds anything else than badges of these heads.
    """
    place = place_of(bundle)
    made = f"pellucid inspect heads {bundle.directory} --source FILE --target FILE --badges {place}"
    if not place.is_file():
        raise ValueError(f"the heads of this model were not studied; run: {made}")
    if place.stat().st_size > LARGEST:
        raise ValueError(f"{place} has more than {LARGEST:,} bytes and is no file of badges; run: {made}")
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{place} cannot be read: {error}; run: {made}") from None
    if problem := problem_of(found, bundle):
        raise ValueError(f"{place} {problem}; run: {made}")
    return found


def problem_of(found: object, bundle: Bundle) -> str | None:
    """What keeps a value from being the badges of this model, as the end of a sentence about its file."""
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        return "is no file of badges that this program reads"
    ours = bundle.manifest.get("files", {}).get(WEIGHTS, {}).get("sha256")
    if not ours or found.get("sha256") != ours:
        return "was made with other weights than this model has"
    fits = {
        "pairs": type(found.get("pairs")) is int,
        "loss": finite(found.get("loss")),
        "rules": texts(found.get("rules")),
        "heads": isinstance(found.get("heads"), list),
    }
    wrong = [name for name, good in fits.items() if not good]
    if wrong:
        return f"is damaged: {wrong[0]} is not what it should be"
    heads = found["heads"]
    if not all(isinstance(each, Mapping) and sound(each) for each in heads):
        return "is damaged: one of its heads is not what it should be"
    if sorted((each["attention"], each["head"]) for each in heads) != sorted(heads_of(bundle.model.config)):
        return "names other heads than this model has"
    return None


def sound(head: Mapping[Any, Any]) -> bool:
    """Whether one head has a name, what silence costs, its error and its roles."""
    badges = head.get("badges")
    return (
        isinstance(head.get("attention"), str)
        and type(head.get("head")) is int
        and all(finite(head.get(name)) for name in ("silent", "gradient"))
        and (head.get("error") is None or finite(head["error"]))
        and isinstance(badges, list)
        and all(isinstance(each, Mapping) and role(each) for each in badges)
    )


def role(badge: Mapping[Any, Any]) -> bool:
    """Whether one badge has a mark, a sentence and its two shares."""
    said = all(isinstance(badge.get(name), str) for name in ("mark", "says"))
    return said and all(finite(badge.get(name)) for name in ("share", "beside"))


def finite(value: object) -> bool:
    """Whether this is a number."""
    return isinstance(value, int | float) and type(value) is not bool and isfinite(value)


def texts(value: object) -> bool:
    """Whether this is a table of texts."""
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)
