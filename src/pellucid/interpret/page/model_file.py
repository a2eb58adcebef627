"""Writes a model as one HTML file that translates and traces any sentence in a browser, without a network or server."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.interpret.page.html_file import (
    SCRIPT_PATH,
    html_block,
    pack_numbers,
    page_document,
    read_script,
    script_json,
    script_text,
)
from pellucid.store.atomic import atomic_file

ENGINE_PATH = SCRIPT_PATH.with_name("engine.js")  # path of the script that computes the model, which web/build.py makes
MODEL_PRECISIONS = ("float16", "float32", "int8")  # precisions in which a file keeps weights


def save_model_html(
    path: Path,
    header: Mapping[str, Any],
    manifest: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    parameters: Iterable[tuple[str, np.ndarray]],
    tokenizer_files: Mapping[str, bytes],
) -> int:
    """Write the file and return its bytes.

    `header` is `ModelHeader` of web/src/engine/package.ts, `manifest` belongs to the trace that is
    shown first, whose `tensors` are drawn before the model is unpacked, and `tokenizer_files` are
    the tokenizers by side. Raises ValueError, and writes nothing, for a weight that the precision
    has no room for, and for a file that no browser opens.
    """
    types = {row["name"]: row["dtype"] for row in manifest["tensors"]}
    drawn = []
    for name, values in tensors.items():
        packed = pack_numbers(name, values, types[name])
        drawn.append(html_block("tensor", name, packed, level=9))

    # Behind what is drawn: it tells the page that there is a model to come.
    about = script_json(header)
    drawn.append(f'<script type="application/json" id="pellucid-model">{about}</script>\n')

    blocks = []
    for name, values in parameters:
        # Level 6: weights are written once and read often, and this saves some 7 %.
        weights = _pack_weights(name, values, header["precision"])
        blocks.append(html_block("parameter", name, weights, level=6))

    blocks += [html_block("tokenizer", name, data, level=9) for name, data in tokenizer_files.items()]
    engine = script_text(read_script(ENGINE_PATH))
    # Inert: the page starts a worker with its text.
    blocks.append(f'<script type="text/plain" id="pellucid-engine">{engine}</script>\n')
    data = page_document(
        manifest,
        "".join(drawn),
        manifest["model"]["name"],
        "".join(blocks),
    ).encode()
    with atomic_file(path) as write:
        write(data)
    return len(data)


def _pack_weights(name: str, values: np.ndarray, precision: str) -> bytes:
    """Return the bytes of a parameter.

    In int8 a matrix has the scales of its rows first, and a vector is float32.
    """
    if precision != "int8":
        return pack_numbers(name, values, precision)
    if values.ndim < 2:
        return pack_numbers(name, values, "float32")
    scales, steps = _round_to_int8(values)
    return scales.astype("<f4").tobytes() + steps.tobytes()


def round_weights(name: str, values: np.ndarray, precision: str) -> np.ndarray:
    """Return a parameter as float32 as the page reads it from the file.

    Raises ValueError where the precision has no room.
    """
    if precision == "int8" and values.ndim == 2:
        scales, steps = _round_to_int8(values)
        return steps * scales[:, None]
    if precision != "float16":
        return values
    return np.frombuffer(pack_numbers(name, values, precision), "<f2").astype(np.float32).reshape(values.shape)


def _round_to_int8(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a scale for each row of a matrix, and its numbers as whole multiples of it, from -127 to 127.

    >>> scales, steps = _round_to_int8(np.array([[0.5, -1.27], [0.0, 0.0]]))
    >>> steps.tolist(), [f"{scale:.2f}" for scale in scales]
    ([[50, -127], [0, 0]], ['0.01', '1.00'])
    """
    largest = np.abs(values).max(axis=1)
    scales = np.where(largest > 0.0, largest / 127, 1.0).astype(np.float32)
    return scales, np.rint(values / scales[:, None]).astype(np.int8)
