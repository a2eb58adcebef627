"""Writes a trace as one HTML file with the page and its numbers, which opens without a network."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from html import escape
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pellucid.page.assets import read_script
from pellucid.page.blocks import (
    STORED_TYPES,
    array_block,
    json_block,
    round_fractions,
    round_to_float16,
    script_json,
    script_text,
)
from pellucid.store.atomic import atomic_file

KEEP_CHOICES = ("maps", "float16", "float32", "weights")
"""Choices for what a file keeps: maps, all tensors rounded, all tensors whole, all tensors and weights."""

MAP_OPERATIONS = ("softmax", "present", "causal")
"""Operations whose results are maps: attention patterns, and which positions are allowed."""

LARGEST_PAGE = 2**29
"""Bytes of the largest file that is written; browsers open no larger text."""

PACKED_ANSWERS = ("accounts", "verdict", "words", "masking", "heads")
"""Entries of a manifest that are packed in a file: they consist of numbers, and would be most of a small file."""

ANSWER_DIGITS = 6
"""Significant digits of the numbers in answers; float32 has about seven, and they are sums of many."""

NumbersByName = Callable[[str], np.ndarray]


class TraceLike(Protocol):
    """A trace as the page needs it: its manifest, answers to questions about it, and the numbers behind a name."""

    def manifest(self) -> dict[str, Any]: ...
    def answers(self) -> dict[str, Any]: ...
    def model_answers(self) -> dict[str, Any]: ...
    def tensor(self, name: str, /) -> np.ndarray: ...
    def parameter(self, name: str, /) -> np.ndarray: ...


def save_html(trace: TraceLike, path: str | Path, keep: str = "maps", say: Callable[[str], Any] | None = None) -> int:
    """Write the file and return its bytes; before that, `say` is told the most it can have.

    Raises ValueError for numbers that cannot be kept or are not there; then nothing is written.
    """
    path = Path(path)
    require_writable(path, keep)
    manifest = manifest_for_file(trace)
    if say:
        say(f"{path} will have at most {format_size(estimate_size(manifest, keep))}")
    data = page_html(manifest, trace.tensor, trace.parameter, keep).encode()
    with atomic_file(path) as write:
        write(data)
    return len(data)


def trace_page(trace: TraceLike, keep: str = "maps") -> str:
    """Return the text of the file."""
    require_keep_choice(keep)
    return page_html(manifest_for_file(trace), trace.tensor, trace.parameter, keep)


def manifest_with_answers(trace: TraceLike) -> dict[str, Any]:
    """Return the manifest with answers about the trace, to as many digits as float32 supports."""
    return {**trace.manifest(), **round_fractions(trace.answers(), digits=ANSWER_DIGITS)}


def manifest_for_file(trace: TraceLike) -> dict[str, Any]:
    """Return the manifest with answers about the trace and about the model, since a file can ask nobody."""
    return {**manifest_with_answers(trace), **round_fractions(trace.model_answers(), digits=ANSWER_DIGITS)}


def page_html(manifest: Mapping[str, Any], tensors: NumbersByName, parameters: NumbersByName, keep: str) -> str:
    """Return the text of the file, from a manifest and functions that return tensors and parameters by name.

    Raises ValueError where `keep` is none of `KEEP_CHOICES`, and for more bytes than a browser opens.
    """
    bytes_at_most = estimate_size(manifest, keep)
    if bytes_at_most > LARGEST_PAGE:
        smaller = ", ".join(KEEP_CHOICES[: KEEP_CHOICES.index(keep)])
        advice = f"keep less: {smaller}" if smaller else "trace a shorter sentence"
        raise ValueError(
            f"the file would have {format_size(bytes_at_most)}, browsers open "
            f"{format_size(LARGEST_PAGE)} at most; {advice}"
        )
    file_manifest, kept_tensors, kept_parameters = select_for_file(manifest, keep)
    arrays = [("tensor", row, row["dtype"], tensors) for row in kept_tensors]
    arrays += [("parameter", row, "float32", parameters) for row in kept_parameters]
    blocks = []
    for kind, row, dtype, numbers in arrays:
        block = array_block(kind, row["name"], numbers(row["name"]), dtype)
        row["sha256"] = block.sha256  # these rows belong to the file's manifest, not to the trace's
        blocks.append(block.html)
    return page_document(file_manifest, "".join(blocks))


def estimate_size(manifest: Mapping[str, Any], keep: str) -> int:
    """Return the most bytes that the file can have; what gzip may save is not counted."""
    file_manifest, tensors, parameters = select_for_file(manifest, keep)
    blocks = [
        *(estimate_block(row, row["dtype"]) for row in tensors),
        *(estimate_block(row, "float32") for row in parameters),
    ]
    return sum(blocks) + len(page_document(file_manifest, "").encode())


def estimate_block(row: Mapping[str, Any], dtype: str) -> int:
    """Return the most bytes of a block with its hash in the manifest, if gzip saves nothing."""
    raw = STORED_TYPES[dtype].itemsize * prod(row["shape"])
    # What gzip cannot shrink it stores, with 5 bytes before each stretch, a head and a tail; base64 makes 4 of 3 bytes.
    packed = raw + 5 * (raw // 16_000 + 1) + 32
    return 4 * -(-packed // 3) + 2 * len(row["name"]) + 256


def select_for_file(
    manifest: Mapping[str, Any], keep: str
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the manifest of the file, and those of its rows, of tensors and of parameters, whose numbers are kept."""
    require_keep_choice(keep)
    rows = [row_for_file(row, keep) for row in manifest["tensors"]]
    weights = [{**row, "captured": row["captured"] and keep == "weights"} for row in manifest["parameters"]]
    tensors = [row for row in rows if row["captured"]]
    parameters = [row for row in weights if row["captured"]]
    if keep == "weights" and not parameters:
        raise ValueError("this trace has no weights at hand, as it was loaded without its model; keep float32 instead")
    half = keep == "float16"
    stored = sum(STORED_TYPES[row["dtype"]].itemsize * prod(row["shape"]) for row in tensors)
    stored += sum(STORED_TYPES["float32"].itemsize * prod(row["shape"]) for row in parameters)
    file_manifest = {
        **manifest,
        "run": {**manifest["run"], "capture": "float16" if half else "float32", "bytes": stored},
        "notes": [*manifest["notes"], *([ROUNDED_NOTE] if half else [])],
        "tensors": rows,
        "parameters": weights,
    }
    return file_manifest, tensors, parameters


ROUNDED_NOTE = (
    "Numbers in this file are rounded to float16, about three digits: a row of a pattern sums to 1 within 0.0003 only, "
    "and what is recomputed from them differs as much."
)


def row_for_file(row: Mapping[str, Any], keep: str) -> dict[str, Any]:
    """Return the row of a tensor as the file has it; one whose numbers are not kept counts as not captured."""
    if not row["captured"] or (keep == "maps" and row["op"]["kind"] not in MAP_OPERATIONS):
        return {key: value for key, value in row.items() if key not in ("least", "largest")} | {"captured": False}
    if keep != "float16" or row["dtype"] == "bool":
        return dict(row)
    # The page scales its colours by these, so they must be rounded as the numbers themselves are.
    extremes = [key for key in ("least", "largest") if row.get(key) is not None]
    half = round_to_float16(row["name"], np.array([row[key] for key in extremes]))
    return {**row, "dtype": "float16", **dict(zip(extremes, half.tolist(), strict=True))}


def page_document(manifest: Mapping[str, Any], blocks: str) -> str:
    """Return the HTML: the manifest, the blocks, and the script, which finds both."""
    script = script_text(read_script())
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # A hash rather than 'unsafe-inline': no other script runs, no handler in an attribute either.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    # Packed on their own; the rest of the manifest stays readable in the file.
    answers = "".join(json_block("answer", name, manifest[name]).html for name in PACKED_ANSWERS if name in manifest)
    plain = {name: value for name, value in manifest.items() if name not in PACKED_ANSWERS}
    source, target = (escape(str(manifest[side]["text"])) for side in ("source", "target"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{source} → {target}</title>
<style>html {{ color-scheme: light dark }} body {{ margin: 0 }}</style>
</head>
<body>
<div id="pellucid" data-host="file"></div>
<noscript><p>{source}</p><p>{target}</p><p>The numbers behind this translation are shown by a script, which this browser
does not run.</p></noscript>
<script type="application/json" id="pellucid-manifest">{script_json(plain)}</script>
{answers}{blocks}<script type="module">{script}</script>
</body>
</html>
"""


def require_writable(path: Path, keep: str) -> None:
    """Raise ValueError where no file of this kind can be written."""
    require_keep_choice(keep)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be a file: {'it is' if path.is_dir() else f'{path.parent} is not'} a folder")


def require_keep_choice(keep: str) -> None:
    """Raise ValueError for a choice that is none of `KEEP_CHOICES`."""
    if keep not in KEEP_CHOICES:
        raise ValueError(f"a file keeps {', '.join(KEEP_CHOICES[:-1])} or {KEEP_CHOICES[-1]}, not {json.dumps(keep)}")


def format_size(count: int) -> str:
    """Return a number of bytes in words.

    >>> format_size(812_345), format_size(14_000_000)
    ('813 kB', '14.0 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000)} kB"
