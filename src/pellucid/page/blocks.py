"""Blocks of numbers and JSON as text that can stand inside an HTML page and do nothing there."""

import gzip
import hashlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

STORED_TYPES = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "bool": np.dtype("u1")}
"""NumPy type in which numbers of each type are written: little-endian on every machine."""


@dataclass(frozen=True)
class Block:
    """An inert script element: base64 of gzip of bytes; those of arrays are little-endian, the last axis fastest."""

    html: str
    sha256: str  # of the bytes before they were packed


def array_block(kind: str, name: str, values: np.ndarray, dtype: str) -> Block:
    """Pack an array under its name; `kind` is "tensor" or "parameter".

    Raises ValueError for a number that float16 has no room for.
    """
    stored = values.astype(STORED_TYPES[dtype], order="C") if dtype != "float16" else round_to_float16(name, values)
    return pack_block(kind, name, stored.tobytes(), level=1)  # 6 is slow, and saves 0.3 %


def pack_block(kind: str, name: str, data: bytes, level: int) -> Block:
    """Pack bytes under a name."""
    # mtime=0: gzip would otherwise write the time, and equal traces would give different files.
    text = b64encode(gzip.compress(data, compresslevel=level, mtime=0)).decode("ascii")
    html = f'<script type="application/gzip" data-{kind}="{escape(name)}">{text}</script>\n'
    return Block(html, hashlib.sha256(data).hexdigest())


def json_block(kind: str, name: str, value: Any) -> Block:
    """Pack JSON under a name."""
    text = json.dumps(without_infinities(value), allow_nan=False, separators=(",", ":"))
    return pack_block(kind, name, text.encode("ascii"), level=9)


def round_to_float16(name: str, values: np.ndarray) -> np.ndarray:
    """Return the numbers rounded to float16; ValueError for one that float16 has no room for."""
    with np.errstate(over="ignore"):
        half = values.astype(STORED_TYPES["float16"], order="C")
    lost = np.isinf(half) & np.isfinite(values)
    if lost.any():
        raise ValueError(
            f"{name} holds {float(values[lost][0]):g}, and float16 ends at 65504; keep float32 instead of float16"
        )
    return half


def script_json(value: Any) -> str:
    r"""Return JSON in which no HTML parser sees anything, and which JavaScript reads as the same value.

    >>> script_json({"</script>": "a & b"})
    '{"\\u003c/script\\u003e":"a \\u0026 b"}'
    """
    text = json.dumps(without_infinities(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half surrogate pairs have no UTF-8; the separators U+2028 and U+2029 end a line in JavaScript.
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda character: f"\\u{ord(character[0]):04x}", text)


def round_fractions(value: Any, digits: int) -> Any:
    """Return the value with all its fractions cut to so many significant digits.

    >>> round_fractions({"a": [0.1234567, 3]}, digits=4)
    {'a': [0.1235, 3]}
    """
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: round_fractions(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [round_fractions(item, digits) for item in value]
    return value


def without_infinities(value: Any) -> Any:
    """Return the value with None in place of infinities and NaN, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(item) for item in value]
    return value


def script_text(module: str) -> str:
    r"""Return JavaScript that may stand inside a script element: whatever would end or hide it is spelled otherwise.

    >>> print(script_text('"</script>" + "<!--"'))
    "\x3c/script>" + "\x3c!--"
    """
    return re.sub(r"<(?=/script|!--)", r"\\x3c", module, flags=re.IGNORECASE)
