"""A trace as one HTML file: the page, its numbers and nothing to fetch, so that it opens without a network."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from html import escape
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pellucid.atomic import atomic_file
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

KEEP_CHOICES = ("maps", "float16", "float32", "weights")
"""What a file can keep, from little to all: maps, every tensor rounded or whole, and every tensor and weight."""

MAP_OPERATIONS = ("softmax", "present", "causal")
"""The operations whose results are maps: attention patterns, and which positions are allowed."""

LARGEST_PAGE = 2**29
"""Bytes of the largest file that is written; browsers open no larger text."""

PACKED_ANSWERS = ("accounts", "verdict", "words", "masking", "heads")
"""What of a manifest is packed in a file: it consists of numbers, and would be most of a small file."""

ANSWER_DIGITS = 6
"""Of the numbers in answers; float32 has about seven, and they are sums of many."""

NumbersByName = Callable[[str], np.ndarray]


class TraceLike(Protocol):
    """What is needed of a trace: the manifest, what else could be asked of it, and the numbers behind a name."""

    def manifest(self) -> dict[str, Any]: ...
    def answers(self) -> dict[str, Any]: ...
    def model_answers(self) -> dict[str, Any]: ...
    def tensor(self, name: str, /) -> np.ndarray: ...
    def parameter(self, name: str, /) -> np.ndarray: ...


def save_html(trace: TraceLike, path: str | Path, keep: str = "maps", say: Callable[[str], Any] | None = None) -> int:
    """Write the file and return its bytes; `say` is told how large it will be at most, before it is written.

    Raises ValueError for what cannot be kept, or not there; then nothing is written.
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
    """The text of the file."""
    require_kept(keep)
    return page_html(manifest_for_file(trace), trace.tensor, trace.parameter, keep)


def manifest_with_answers(trace: TraceLike) -> dict[str, Any]:
    """The manifest with what can be asked of the trace, to as many digits as float32 supports."""
    return {**trace.manifest(), **round_fractions(trace.answers(), digits=ANSWER_DIGITS)}


def manifest_for_file(trace: TraceLike) -> dict[str, Any]:
    """The same with everything else that a file could ask nobody for."""
    return {**manifest_with_answers(trace), **round_fractions(trace.model_answers(), digits=ANSWER_DIGITS)}


def page_html(manifest: Mapping[str, Any], tensors: NumbersByName, parameters: NumbersByName, keep: str) -> str:
    """The text of the file, of a manifest and what gives the numbers of a tensor and of a parameter.

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
    told, kept_tensors, kept_parameters = select_kept(manifest, keep)
    wanted = [("tensor", row, row["dtype"], tensors) for row in kept_tensors]
    wanted += [("parameter", row, "float32", parameters) for row in kept_parameters]
    blocks = []
    for kind, row, dtype, numbers in wanted:
        made = array_block(kind, row["name"], numbers(row["name"]), dtype)
        row["sha256"] = made.sha256
        blocks.append(made.html)
    return page_document(told, "".join(blocks))


def estimate_size(manifest: Mapping[str, Any], keep: str) -> int:
    """Bytes of the file at most: what gzip may save is not counted."""
    told, tensors, parameters = select_kept(manifest, keep)
    blocks = [
        *(estimate_block(row, row["dtype"]) for row in tensors),
        *(estimate_block(row, "float32") for row in parameters),
    ]
    return sum(blocks) + len(page_document(told, "").encode())


def estimate_block(row: Mapping[str, Any], dtype: str) -> int:
    """Bytes of a block at most, with its hash in the manifest: gzip saves nothing, and adds a head and tails."""
    raw = STORED_TYPES[dtype].itemsize * prod(row["shape"])
    packed = raw + 5 * (raw // 16_000 + 1) + 32
    return 4 * -(-packed // 3) + 2 * len(row["name"]) + 256


def select_kept(
    manifest: Mapping[str, Any], keep: str
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The manifest of the file, and those of its rows, of tensors and of parameters, whose numbers are kept."""
    require_kept(keep)
    rows = [kept_row(row, keep) for row in manifest["tensors"]]
    weights = [{**row, "captured": row["captured"] and keep == "weights"} for row in manifest["parameters"]]
    tensors = [row for row in rows if row["captured"]]
    parameters = [row for row in weights if row["captured"]]
    if keep == "weights" and not parameters:
        raise ValueError("this trace has no weights at hand, as it was loaded without its model; keep float32 instead")
    half = keep == "float16"
    stored = sum(STORED_TYPES[row["dtype"]].itemsize * prod(row["shape"]) for row in tensors)
    stored += sum(STORED_TYPES["float32"].itemsize * prod(row["shape"]) for row in parameters)
    told = {
        **manifest,
        "run": {**manifest["run"], "capture": "float16" if half else "float32", "bytes": stored},
        "notes": [*manifest["notes"], *([ROUNDED_NOTE] if half else [])],
        "tensors": rows,
        "parameters": weights,
    }
    return told, tensors, parameters


ROUNDED_NOTE = (
    "Numbers in this file are rounded to float16, about three digits: a row of a pattern sums to 1 within 0.0003 only, "
    "and what is recomputed from them differs as much."
)


def kept_row(row: Mapping[str, Any], keep: str) -> dict[str, Any]:
    """The row of a tensor as the file has it; what is not kept is not captured."""
    if not row["captured"] or (keep == "maps" and row["op"]["kind"] not in MAP_OPERATIONS):
        return {key: value for key, value in row.items() if key not in ("least", "largest")} | {"captured": False}
    if keep != "float16" or row["dtype"] == "bool":
        return dict(row)
    edges = [key for key in ("least", "largest") if row.get(key) is not None]
    half = round_to_float16(row["name"], np.array([row[key] for key in edges]))
    return {**row, "dtype": "float16", **dict(zip(edges, half.tolist(), strict=True))}


def page_document(manifest: Mapping[str, Any], blocks: str) -> str:
    """The HTML: what is said of the trace, its blocks, and the script, which finds both when it is read."""
    script = script_text(read_script())
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # A hash rather than 'unsafe-inline': no other script runs, no handler in an attribute either.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
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
    """ValueError where no file of this kind can be written."""
    require_kept(keep)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be a file: {'it is' if path.is_dir() else f'{path.parent} is not'} a folder")


def require_kept(keep: str) -> None:
    """ValueError for what no file keeps."""
    if keep not in KEEP_CHOICES:
        raise ValueError(f"a file keeps {', '.join(KEEP_CHOICES[:-1])} or {KEEP_CHOICES[-1]}, not {json.dumps(keep)}")


def format_size(count: int) -> str:
    """Bytes in words.

    >>> format_size(812_345), format_size(14_000_000)
    ('813 kB', '14.0 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000)} kB"
