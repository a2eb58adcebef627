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

from pellucid.atomic import written_file
from pellucid.page.assets import bundle
from pellucid.page.blocks import STORED, block, halved, json_block, rounded, script_json, script_text

KEPT = ("maps", "float16", "float32", "weights")
"""What a file can keep, from little to all: maps, every tensor rounded or whole, and every tensor and weight."""

MAPS = ("softmax", "present", "causal")
"""The operations whose results are maps: attention patterns, and which positions are allowed."""

LARGEST = 2**29
"""Bytes of the largest file that is written; browsers open no larger text."""

ANSWERS = ("accounts", "verdict", "words", "masking", "heads")
"""What of a manifest is packed in a file: it consists of numbers, and would be most of a small file."""

DIGITS = 6
"""Of the numbers in answers; float32 has about seven, and they are sums of many."""

Numbers = Callable[[str], np.ndarray]


class Traced(Protocol):
    """What is needed of a trace: the manifest, what else could be asked of it, and the numbers behind a name."""

    def manifest(self) -> dict[str, Any]: ...
    def answers(self) -> dict[str, Any]: ...
    def beside(self) -> dict[str, Any]: ...
    def tensor(self, name: str, /) -> np.ndarray: ...
    def parameter(self, name: str, /) -> np.ndarray: ...


def save_html(trace: Traced, path: str | Path, keep: str = "maps", say: Callable[[str], Any] | None = None) -> int:
    """Write the file and return its bytes; `say` is told how large it will be at most, before it is written.

    Raises ValueError for what cannot be kept, or not there; then nothing is written.
    """
    path = Path(path)
    require_place(path, keep)
    manifest = in_file(trace)
    if say:
        say(f"{path} will have at most {size(estimate(manifest, keep))}")
    data = page_html(manifest, trace.tensor, trace.parameter, keep).encode()
    with written_file(path) as write:
        write(data)
    return len(data)


def page_of(trace: Traced, keep: str = "maps") -> str:
    """The text of the file."""
    require_kept(keep)
    return page_html(in_file(trace), trace.tensor, trace.parameter, keep)


def whole(trace: Traced) -> dict[str, Any]:
    """The manifest with what can be asked of the trace, to as many digits as float32 supports."""
    return {**trace.manifest(), **rounded(trace.answers(), digits=DIGITS)}


def in_file(trace: Traced) -> dict[str, Any]:
    """The same with everything else that a file could ask nobody for."""
    return {**whole(trace), **rounded(trace.beside(), digits=DIGITS)}


def page_html(manifest: Mapping[str, Any], tensors: Numbers, parameters: Numbers, keep: str) -> str:
    """The text of the file, of a manifest and what gives the numbers of a tensor and of a parameter.

    Raises ValueError where `keep` is none of `KEPT`, and for more bytes than a browser opens.
    """
    bytes_at_most = estimate(manifest, keep)
    if bytes_at_most > LARGEST:
        smaller = ", ".join(KEPT[: KEPT.index(keep)])
        advice = f"keep less: {smaller}" if smaller else "trace a shorter sentence"
        raise ValueError(f"the file would have {size(bytes_at_most)}, browsers open {size(LARGEST)} at most; {advice}")
    told, kept_tensors, kept_parameters = kept(manifest, keep)
    wanted = [("tensor", row, row["dtype"], tensors) for row in kept_tensors]
    wanted += [("parameter", row, "float32", parameters) for row in kept_parameters]
    blocks = []
    for kind, row, dtype, numbers in wanted:
        made = block(kind, row["name"], numbers(row["name"]), dtype)
        row["sha256"] = made.sha256
        blocks.append(made.html)
    return document(told, "".join(blocks))


def estimate(manifest: Mapping[str, Any], keep: str) -> int:
    """Bytes of the file at most: what gzip may save is not counted."""
    told, tensors, parameters = kept(manifest, keep)
    blocks = [*(room(row, row["dtype"]) for row in tensors), *(room(row, "float32") for row in parameters)]
    return sum(blocks) + len(document(told, "").encode())


def room(row: Mapping[str, Any], dtype: str) -> int:
    """Bytes of a block at most, with its hash in the manifest: gzip saves nothing, and adds a head and tails."""
    raw = STORED[dtype].itemsize * prod(row["shape"])
    packed = raw + 5 * (raw // 16_000 + 1) + 32
    return 4 * -(-packed // 3) + 2 * len(row["name"]) + 256


def kept(manifest: Mapping[str, Any], keep: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The manifest of the file, and those of its rows, of tensors and of parameters, whose numbers are kept."""
    require_kept(keep)
    rows = [row_of(row, keep) for row in manifest["tensors"]]
    weights = [{**row, "captured": row["captured"] and keep == "weights"} for row in manifest["parameters"]]
    tensors = [row for row in rows if row["captured"]]
    parameters = [row for row in weights if row["captured"]]
    if keep == "weights" and not parameters:
        raise ValueError("this trace has no weights at hand, as it was loaded without its model; keep float32 instead")
    half = keep == "float16"
    stored = sum(STORED[row["dtype"]].itemsize * prod(row["shape"]) for row in tensors)
    stored += sum(STORED["float32"].itemsize * prod(row["shape"]) for row in parameters)
    told = {
        **manifest,
        "run": {**manifest["run"], "capture": "float16" if half else "float32", "bytes": stored},
        "notes": [*manifest["notes"], *([ROUNDED] if half else [])],
        "tensors": rows,
        "parameters": weights,
    }
    return told, tensors, parameters


ROUNDED = (
    "Numbers in this file are rounded to float16, about three digits: a row of a pattern sums to 1 within 0.0003 only, "
    "and what is recomputed from them differs as much."
)


def row_of(row: Mapping[str, Any], keep: str) -> dict[str, Any]:
    """The row of a tensor as the file has it; what is not kept is not captured."""
    if not row["captured"] or (keep == "maps" and row["op"]["kind"] not in MAPS):
        return {key: value for key, value in row.items() if key not in ("least", "largest")} | {"captured": False}
    if keep != "float16" or row["dtype"] == "bool":
        return dict(row)
    edges = [key for key in ("least", "largest") if row.get(key) is not None]
    half = halved(row["name"], np.array([row[key] for key in edges]))
    return {**row, "dtype": "float16", **dict(zip(edges, half.tolist(), strict=True))}


def document(manifest: Mapping[str, Any], blocks: str) -> str:
    """The HTML: what is said of the trace, its blocks, and the script, which finds both when it is read."""
    script = script_text(bundle())
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # A hash rather than 'unsafe-inline': no other script runs, no handler in an attribute either.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    answers = "".join(json_block("answer", name, manifest[name]).html for name in ANSWERS if name in manifest)
    plain = {name: value for name, value in manifest.items() if name not in ANSWERS}
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


def require_place(path: Path, keep: str) -> None:
    """ValueError where no file of this kind can be written."""
    require_kept(keep)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be a file: {'it is' if path.is_dir() else f'{path.parent} is not'} a folder")


def require_kept(keep: str) -> None:
    """ValueError for what no file keeps."""
    if keep not in KEPT:
        raise ValueError(f"a file keeps {', '.join(KEPT[:-1])} or {KEPT[-1]}, not {json.dumps(keep)}")


def size(count: int) -> str:
    """Bytes in words.

    >>> size(812_345), size(14_000_000)
    ('813 kB', '14.0 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000)} kB"
