"""Reads the roles and the importance of a model's heads from the file that `pellucid inspect heads --badges` wrote."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pellucid.inspect.importance import list_heads
from pellucid.store.directory import WEIGHTS, Bundle

LARGEST_FILE = 2**23
"""Most bytes that such a file may have; the file of a large model has some 100 kB."""

FORMAT = 1


def badges_path(bundle: Bundle) -> Path:
    """Return where the page looks for the badges: runs/demo/best.heads.json for runs/demo/best."""
    return bundle.directory.with_name(f"{bundle.directory.name}.heads.json")


def read_badges(bundle: Bundle) -> dict[str, Any]:
    """Read the badges of a model, trusting nothing in the file.

    Raises ValueError, saying how to make the file, where there is none, where it belongs to another model, or where it
    holds anything else than badges of these heads.
    """
    path = badges_path(bundle)
    command = f"pellucid inspect heads {bundle.directory} --source FILE --target FILE --badges {path}"
    if not path.is_file():
        raise ValueError(f"the heads of this model were not studied; run: {command}")
    # before reading: whatever lies there would be in memory whole
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} has more than {LARGEST_FILE:,} bytes and is no file of badges; run: {command}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}; run: {command}") from None
    if problem := badges_problem(content, bundle):
        raise ValueError(f"{path} {problem}; run: {command}")
    return content


def badges_problem(content: object, bundle: Bundle) -> str | None:
    """Return what keeps a value from being the badges of this model, as the end of a sentence about its file."""
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        return "is no file of badges that this program reads"
    weights_hash = bundle.manifest.get("files", {}).get(WEIGHTS, {}).get("sha256")
    # heads of other weights have other roles, even in a model of equal shape
    if not weights_hash or content.get("sha256") != weights_hash:
        return "was made with other weights than this model has"
    checks = {
        # not isinstance: bool is a subclass of int
        "pairs": type(content.get("pairs")) is int,
        "loss": is_finite_number(content.get("loss")),
        "rules": is_table_of_texts(content.get("rules")),
        "heads": isinstance(content.get("heads"), list),
    }
    damaged = [name for name, passed in checks.items() if not passed]
    if damaged:
        return f"is damaged: {damaged[0]} is not what it should be"
    heads = content["heads"]
    if not all(isinstance(head, Mapping) and is_sound_head(head) for head in heads):
        return "is damaged: one of its heads is not what it should be"
    if sorted((head["attention"], head["head"]) for head in heads) != sorted(list_heads(bundle.model.config)):
        return "names other heads than this model has"
    return None


def is_sound_head(head: Mapping[Any, Any]) -> bool:
    """Whether one head has a name, the cost of its silence, its error and its roles."""
    badges = head.get("badges")
    return (
        isinstance(head.get("attention"), str)
        and type(head.get("head")) is int
        and all(is_finite_number(head.get(name)) for name in ("silent", "gradient"))
        and (head.get("error") is None or is_finite_number(head["error"]))
        and isinstance(badges, list)
        and all(isinstance(badge, Mapping) and is_sound_badge(badge) for badge in badges)
    )


def is_sound_badge(badge: Mapping[Any, Any]) -> bool:
    """Whether one badge has a mark, a sentence and its two shares."""
    has_texts = all(isinstance(badge.get(name), str) for name in ("mark", "says"))
    return has_texts and all(is_finite_number(badge.get(name)) for name in ("share", "beside"))


def is_finite_number(value: object) -> bool:
    """Whether a value is a finite number."""
    # json.loads reads NaN and Infinity, and true would pass as the number 1
    return isinstance(value, int | float) and type(value) is not bool and isfinite(value)


def is_table_of_texts(value: object) -> bool:
    """Whether a value is a table of texts."""
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
