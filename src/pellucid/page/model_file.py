"""Writes a model as one HTML file that translates and traces any sentence in a browser, without a network or server."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.page.html import (
    SCRIPT_PATH,
    html_block,
    pack_numbers,
    page_document,
    read_script,
    script_json,
    script_text,
)
from pellucid.store.atomic import atomic_file

ENGINE_PATH = SCRIPT_PATH.with_name("engine.js")
"""Path of the script that computes the model, which web/build.py makes."""

MODEL_PRECISIONS = ("float16", "float32")
"""Precisions in which a file keeps weights."""


def save_model_html(
    path: Path,
    header: Mapping[str, Any],
    manifest: Mapping[str, Any],
    parameters: Iterable[tuple[str, np.ndarray]],
    tokenizer_files: Mapping[str, bytes],
) -> int:
    """Write the file and return its bytes.

    `header` is `ModelHeader` of web/src/engine/package.ts, `manifest` has what the manifests of all its traces share,
    and `tokenizer_files` are the tokenizers by side. Raises ValueError, and writes nothing, for a weight that the
    precision has no room for, and for a file that no browser opens.
    """
    blocks = [
        # Level 6: weights are written once and read often, and this saves some 7 %.
        html_block("parameter", name, pack_numbers(name, values, header["precision"]), level=6)
        for name, values in parameters
    ]
    blocks += [html_block("tokenizer", name, data, level=9) for name, data in tokenizer_files.items()]
    engine = script_text(read_script(ENGINE_PATH))
    # Inert: the page starts a worker with its text.
    blocks.append(f'<script type="text/plain" id="pellucid-engine">{engine}</script>\n')
    blocks.append(f'<script type="application/json" id="pellucid-model">{script_json(header)}</script>\n')
    data = page_document(manifest, "".join(blocks), title=manifest["model"]["name"], workers=True).encode()
    with atomic_file(path) as write:
        write(data)
    return len(data)
