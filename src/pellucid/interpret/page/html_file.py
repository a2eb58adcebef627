"""Writes a trace as one HTML file with the page and its numbers, which opens without a network."""

import gzip
import hashlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pellucid.store.atomic import atomic_file, require_writable

# Maps, all tensors rounded, all whole, all and weights.
KEEP_CHOICES = ("maps", "float16", "float32", "weights")
# Operations whose results are maps: attention patterns, and which positions are allowed.
_MAP_OPERATIONS = ("softmax", "present", "causal")
# Bytes up to which a file keeps all numbers without being asked to: it can still be sent by mail.
_LARGEST_WHOLE = 3_000_000
_LARGEST_PAGE = 2**29  # bytes of the largest file that is written; browsers open no larger text
# Entries of a manifest that are packed in a file: they
# consist of numbers, and would be most of a small file.
_PACKED_ANSWERS = ("accounts", "verdict", "words", "masking", "heads")
_ANSWER_DIGITS = 6  # significant digits of the numbers in answers; float32 has about seven, and they are sums of many


class TraceLike(Protocol):
    """A trace as the page needs it: its manifest, answers to questions about it, and the numbers behind a name."""

    def manifest(self) -> dict[str, Any]: ...
    def answers(self) -> dict[str, Any]: ...
    def model_answers(self) -> dict[str, Any]: ...
    def tensor(self, name: str, /) -> np.ndarray: ...
    def parameter(self, name: str, /) -> np.ndarray: ...


def save_html(
    trace: TraceLike,
    path: str | Path,
    keep: str | None = None,
    say: Callable[[str], Any] | None = None,
) -> int:
    """Write the file and return its bytes; before that, `say` is told the most it can have.

    Without `keep`, all numbers are kept as float16 if the file has 3 MB at most, and maps
    otherwise, which `say` is told. Raises ValueError for numbers that cannot be kept or are not
    there; then nothing is written.
    """
    require_keep_choice(keep)
    require_writable(path)
    manifest = _manifest_for_file(trace)
    chosen = keep or choose_keep(manifest)
    if say:
        if keep is None and chosen == "maps":
            whole = format_size(estimate_size(manifest, "float16"))
            say(f"{path} keeps the attention maps only; with every number it would have {whole}: --keep float16")
        say(f"{path} will have at most {format_size(estimate_size(manifest, chosen))}")

    data = page_html(trace, manifest, chosen).encode()
    with atomic_file(path) as write:
        write(data)
    return len(data)


def trace_page(trace: TraceLike, keep: str | None = None) -> str:
    """Return the text of the file; without `keep`, of one that `choose_keep` chooses."""
    require_keep_choice(keep)
    manifest = _manifest_for_file(trace)
    return page_html(trace, manifest, keep or choose_keep(manifest))


def choose_keep(manifest: Mapping[str, Any]) -> str:
    """Return float16 where all numbers of a trace fit into it and into 3 MB, and maps otherwise."""
    extreme = 0
    for row in manifest["tensors"]:
        extreme = max(extreme, abs(row.get("least") or 0), abs(row.get("largest") or 0))
    fits = extreme <= float(np.finfo(np.float16).max)
    return "float16" if fits and estimate_size(manifest, "float16") <= _LARGEST_WHOLE else "maps"


def manifest_with_answers(trace: TraceLike) -> dict[str, Any]:
    """Return the manifest with answers about the trace, to as many digits as float32 supports."""
    return {**trace.manifest(), **_round_fractions(trace.answers(), digits=_ANSWER_DIGITS)}


def _manifest_for_file(trace: TraceLike) -> dict[str, Any]:
    """Return the manifest with answers about the trace and about the model, since a file can ask nobody."""
    return {
        **manifest_with_answers(trace),
        **_round_fractions(trace.model_answers(), digits=_ANSWER_DIGITS),
    }


def page_html(trace: TraceLike, manifest: Mapping[str, Any], keep: str) -> str:
    """Return the text of the file: this manifest, and the numbers of the trace that are kept.

    Raises ValueError where `keep` is not in `KEEP_CHOICES`, and for more bytes than a browser
    opens.
    """
    bytes_at_most = estimate_size(manifest, keep)
    if bytes_at_most > _LARGEST_PAGE:
        smaller = ", ".join(KEEP_CHOICES[: KEEP_CHOICES.index(keep)])
        advice = f"keep less: {smaller}" if smaller else "trace a shorter sentence"
        raise ValueError(
            f"the file would have {format_size(bytes_at_most)}, browsers open "
            f"{format_size(_LARGEST_PAGE)} at most; {advice}"
        )

    file_manifest, tensors, parameters = _select_for_file(manifest, keep)
    blocks = []
    for kind, rows, read in (
        ("tensor", tensors, trace.tensor),
        ("parameter", parameters, trace.parameter),
    ):
        for row in rows:
            data = pack_numbers(row["name"], read(row["name"]), row.get("dtype", "float32"))
            row["sha256"] = hashlib.sha256(data).hexdigest()  # the rows are the file's own, not the trace's
            blocks.append(html_block(kind, row["name"], data, level=1))  # level 6 is slow, and saves 0.3 %

    return page_document(file_manifest, "".join(blocks))


def estimate_size(manifest: Mapping[str, Any], keep: str) -> int:
    """Return the most bytes that the file can have; what gzip may save is not counted."""
    file_manifest, tensors, parameters = _select_for_file(manifest, keep)
    size = len(page_document(file_manifest, "").encode())
    for row in tensors + parameters:
        raw = _count_bytes(row)
        # What gzip cannot shrink it stores, with 5 bytes before each stretch, a head and a tail;
        # base64 makes 4 of 3 bytes. The manifest has a hash of each block.
        packed = raw + 5 * (raw // 16_000 + 1) + 32
        size += 4 * -(-packed // 3) + 2 * len(row["name"]) + 256
    return size


def _select_for_file(
    manifest: Mapping[str, Any], keep: str
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the manifest of the file, and its rows, of tensors and of parameters, whose numbers are kept."""
    require_keep_choice(keep)
    rows = [_row_for_file(row, keep) for row in manifest["tensors"]]
    weights = []
    for row in manifest["parameters"]:
        weights.append({**row, "captured": row["captured"] and keep == "weights"})
    tensors = [row for row in rows if row["captured"]]
    parameters = [row for row in weights if row["captured"]]
    half = keep == "float16"
    file_manifest = {
        **manifest,
        "run": {
            **manifest["run"],
            "capture": "float16" if half else "float32",
            "bytes": sum(map(_count_bytes, tensors + parameters)),
        },
        "notes": [*manifest["notes"], *([_ROUNDED_NOTE] if half else [])],
        "tensors": rows,
        "parameters": weights,
    }
    return file_manifest, tensors, parameters


def _count_bytes(row: Mapping[str, Any]) -> int:
    """Return the bytes of the numbers of a row, before they are packed.

    A parameter has no `dtype` and is float32.
    """
    return _STORED_TYPES[row.get("dtype", "float32")].itemsize * prod(row["shape"])


_ROUNDED_NOTE = (
    "Numbers in this file are rounded to float16, about three digits: a row of a pattern sums to 1 within 0.0003 only, "
    "and what is recomputed from them differs as much."
)


def _row_for_file(row: Mapping[str, Any], keep: str) -> dict[str, Any]:
    """Return the row of a tensor as the file has it.

    One whose numbers are not kept counts as not captured.
    """
    if not row["captured"] or (keep == "maps" and row["op"]["kind"] not in _MAP_OPERATIONS):
        shown = {key: value for key, value in row.items() if key not in ("least", "largest")}
        return {**shown, "captured": False}

    if keep != "float16" or row["dtype"] == "bool":
        return dict(row)
    # The page scales its colours by these, so they must be rounded as the numbers themselves are.
    extremes = [key for key in ("least", "largest") if row.get(key) is not None]
    half = _round_to_float16(row["name"], np.array([row[key] for key in extremes]))
    return {**row, "dtype": "float16", **dict(zip(extremes, half.tolist(), strict=True))}


def page_document(
    manifest: Mapping[str, Any],
    blocks: str,
    title: str | None = None,
    blocks_of_model: str = "",
) -> str:
    """Return the HTML: the manifest, the blocks, and the script, which finds both.

    The title is the translation's unless another is given. Behind the script stand the blocks of a
    model, for which it may start workers; it draws while the browser still reads them.
    """
    script = script_text(read_script())
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # A hash rather than 'unsafe-inline': no other script runs, no handler in an attribute either.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"base-uri 'none'; form-action 'none'{'; worker-src blob:' if blocks_of_model else ''}"
    )

    # Packed on their own; the rest of the manifest stays readable in the file.
    packed = {name: _dump_json(manifest[name]) for name in _PACKED_ANSWERS if name in manifest}
    answers = ""
    for name, text in packed.items():
        answers += html_block("answer", name, text.encode("ascii"), level=9)
    plain = {name: value for name, value in manifest.items() if name not in _PACKED_ANSWERS}
    source, target = (escape(str(manifest[side]["text"])) for side in ("source", "target"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{source + " → " + target if title is None else escape(title)}</title>
<style>html {{ color-scheme: light dark }} body {{ margin: 0 }}</style>
</head>
<body>
<div id="pellucid" data-host="file"></div>
<noscript><p>{source}</p><p>{target}</p><p>The numbers behind this translation are shown by a script, which this browser
does not run.</p></noscript>
<script type="application/json" id="pellucid-manifest">{script_json(plain)}</script>
{answers}{blocks}<script type="module"{" async" if blocks_of_model else ""}>{script}</script>
{blocks_of_model}</body>
</html>
"""


def require_keep_choice(keep: str | None) -> None:
    """Raise ValueError for a choice that `KEEP_CHOICES` does not have.

    None leaves it to `choose_keep`.
    """
    if keep is not None and keep not in KEEP_CHOICES:
        raise ValueError(f"a file keeps {', '.join(KEEP_CHOICES[:-1])} or {KEEP_CHOICES[-1]}, not {json.dumps(keep)}")


def format_size(count: int) -> str:
    """Return a number of bytes in words.

    >>> format_size(812_345), format_size(14_000_000)
    ('813 kB', '14.0 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000)} kB"


# NumPy type in which numbers of each type are written: little-endian on every machine.
_STORED_TYPES = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "bool": np.dtype("u1")}


def pack_numbers(name: str, values: np.ndarray, dtype: str) -> bytes:
    """Return the numbers in their stored type, the last axis fastest.

    Raises ValueError where float16 has no room for one.
    """
    stored = _round_to_float16(name, values) if dtype == "float16" else values.astype(_STORED_TYPES[dtype], order="C")
    return stored.tobytes()


def _round_to_float16(name: str, values: np.ndarray) -> np.ndarray:
    """Return the numbers rounded to float16; ValueError for one that float16 has no room for."""
    with np.errstate(over="ignore"):
        half = values.astype(_STORED_TYPES["float16"], order="C")
    lost = np.isinf(half) & np.isfinite(values)
    if lost.any():
        raise ValueError(
            f"{name} holds {float(values[lost][0]):g}, and float16 ends at 65504; keep float32 instead of float16"
        )
    return half


def html_block(kind: str, name: str, data: bytes, level: int) -> str:
    """Return an inert script element with base64 of gzip of the bytes, under a kind and a name."""
    # mtime=0: gzip would otherwise write the time, and equal traces would give different files.
    text = b64encode(gzip.compress(data, compresslevel=level, mtime=0)).decode("ascii")
    return f'<script type="application/gzip" data-{kind}="{escape(name)}">{text}</script>\n'


def _dump_json(value: Any, ascii_only: bool = True) -> str:
    """Return JSON without spaces, with null for infinities and NaN."""
    return json.dumps(
        without_infinities(value),
        ensure_ascii=ascii_only,
        allow_nan=False,
        separators=(",", ":"),
    )


def script_json(value: Any) -> str:
    r"""Return JSON in which no HTML parser sees anything, and which JavaScript reads as the same value.

    >>> script_json({"</script>": "a & b"})
    '{"\\u003c/script\\u003e":"a \\u0026 b"}'
    """
    text = _dump_json(value, ascii_only=False)
    # Half surrogate pairs have no UTF-8; the separators U+2028 and U+2029 end a line in JavaScript.
    return re.sub(
        "[<>&\u2028\u2029\ud800-\udfff]",
        lambda character: f"\\u{ord(character[0]):04x}",
        text,
    )


def _round_fractions(value: Any, digits: int) -> Any:
    """Return the value with all its fractions cut to so many significant digits.

    >>> _round_fractions({"a": [0.1234567, 3]}, digits=4)
    {'a': [0.1235, 3]}
    """
    return _change_floats(value, lambda number: float(f"{number:.{digits}g}") if math.isfinite(number) else number)


def without_infinities(value: Any) -> Any:
    """Return the value with None in place of infinities and NaN, which JSON lacks."""
    return _change_floats(value, lambda number: number if math.isfinite(number) else None)


def _change_floats(value: Any, change: Callable[[float], float | None]) -> Any:
    """Return the value, of dictionaries and lists, with every float in it changed."""
    if isinstance(value, float):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _change_floats(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_change_floats(item, change) for item in value]
    return value


def script_text(module: str) -> str:
    r"""Return JavaScript that may stand in a script element: text that would end or hide it is spelled otherwise.

    >>> print(script_text('"</script>" + "<!--"'))
    "\x3c/script>" + "\x3c!--"
    """
    return re.sub(r"<(?=/script|!--)", r"\\x3c", module, flags=re.IGNORECASE)


SCRIPT_PATH = Path(__file__).with_name("static") / "pellucid.js"  # of the page; web/build.py makes it


def read_script(path: Path | None = None) -> str:
    """Return the text of a script, by default the page's.

    Raises ValueError, saying how to build it, where it is missing.
    """
    path = path or SCRIPT_PATH
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(
            f"the page is not built: {path} is missing; run `make page` in a checkout of the project, or "
            "install a released package, which contains it"
        ) from None


def scatter_html(coordinates: np.ndarray, labels: Sequence[str], *, title: str, says: str) -> str:
    """Return a page with a map of points of two or three numbers and their labels.

    `says` stands under the title.
    """
    assert coordinates.shape in ((len(labels), 2), (len(labels), 3))
    # Seven digits are what a float32 has; a position on a map needs fewer.
    points = []
    for point in coordinates.tolist():
        points.append([float(f"{number:.7g}") for number in point])
    values = {
        "title": escape(title),
        "says": escape(says),
        "data": script_json({"labels": list(labels), "points": points}),
    }
    template = Path(__file__).with_name("scatter.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], template)
