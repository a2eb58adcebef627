"""A trace made by hand with hostile text in it, a script that stands for the built page, and a reader of HTML files."""

import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from math import prod
from typing import Any

import numpy as np
import pytest

HOSTILE = "</script><img src=x onerror=alert(1)><!-- \u2028 & \" '"
SCRIPT = f"/*! pellucid page; SHA-256 of its sources: {'5e' * 32} */\nexport const end = '</script><!--';\n"

S, T, D, H, V = 5, 3, 4, 2, 11
SHAPES = {
    "encoder.input": ("S D", "add"),
    "encoder.0.self.allowed": ("1 1 S", "present"),
    "encoder.0.self.pattern": ("H S S", "softmax"),
    "decoder.0.self.allowed": ("1 T T", "causal"),
    "decoder.0.cross.scores": ("H T S", "scale"),
    "decoder.0.cross.pattern": ("H T S", "softmax"),
    "logits": ("T V", "linear"),
}
SIZES = {"S": S, "T": T, "D": D, "H": H, "V": V, "1": 1}
PARAMETERS = {"source_embedding.weight": (V, D), "encoder.0.self.output.bias": (D,)}


class HandMadeTrace:
    """A trace that has what the page needs, and no model behind it."""

    def __init__(self, name: str = "a1", missing: tuple[str, ...] = ()):
        rng = np.random.default_rng(len(name))
        self.name = name
        self.tensors = {}
        for tensor, (dims, kind) in SHAPES.items():
            values = rng.normal(size=[SIZES[letter] for letter in dims.split()]).astype(np.float32)
            self.tensors[tensor] = np.float32(values > 0) if kind in ("present", "causal") else values
        self.parameters = {name: rng.normal(size=shape).astype(np.float32) for name, shape in PARAMETERS.items()}
        self.missing = missing

    def tensor(self, name: str) -> np.ndarray:
        return self.tensors[name]

    def parameter(self, name: str) -> np.ndarray:
        return self.parameters[name]

    def answers(self) -> dict[str, Any]:
        account = {"piece": HOSTILE, "logit": np.pi, "sum": float("inf"), "parts": []}
        return {"accounts": {"chosen": [account], "against": [None]}, "verdict": {"findings": []}}

    def model_answers(self) -> dict[str, Any]:
        near = {"4": [{"piece": HOSTILE, "id": 7, "cosine": 0.123456789}]}
        return {"words": [{"side": "source", "pieces": [HOSTILE], "near": near}], "masking": {"kept": [0.0]}}

    def manifest(self) -> dict[str, Any]:
        side = {"text": f"a {HOSTILE} b", "pieces": ["▁a", HOSTILE, "b", "c", "</s>"]}
        return {
            "id": self.name,
            "run": {"capture": "float32", "bytes": 12345},
            "source": side,
            "target": {"text": "x", "pieces": ["x", "y", "</s>"]},
            "notes": ["a note"],
            "tensors": [self.row(name) for name in SHAPES],
            "parameters": [
                {"name": name, "shape": list(shape), "captured": True} for name, shape in PARAMETERS.items()
            ],
        }

    def row(self, name: str) -> dict[str, Any]:
        dims, kind = SHAPES[name]
        values = self.tensors[name]
        captured = name not in self.missing
        return {
            "name": name,
            "dims": dims.split(),
            "shape": list(values.shape),
            "op": {"kind": kind},
            "captured": captured,
            "dtype": "bool" if name.endswith("allowed") else "float32",
            **({"least": float(values.min()), "largest": float(values.max())} if captured else {}),
        }


@dataclass
class Read(HTMLParser):
    """A page as the parser of a browser sees it: its elements, and the text of its scripts."""

    page: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    meta: dict[str | None, str | None] = field(default_factory=dict)
    title: str = ""
    inside: str = ""

    def __post_init__(self):
        super().__init__(convert_charrefs=True)
        self.feed(self.page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.meta[dict(attrs)["http-equiv"]] = dict(attrs).get("content")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "title":
            self.title += data
        if self.inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data

    @property
    def manifest(self) -> dict[str, Any]:
        [text] = [text for attributes, text in self.scripts if attributes.get("id") == "pellucid-manifest"]
        return {**json.loads(text), **{name: json.loads(data) for name, data in self.blocks("answer").items()}}

    @property
    def module(self) -> str:
        [text] = [text for attributes, text in self.scripts if attributes.get("type") == "module"]
        return text

    def blocks(self, kind: str) -> dict[str, bytes]:
        return {
            str(attributes[f"data-{kind}"]): gzip.decompress(base64.b64decode(text, validate=True))
            for attributes, text in self.scripts
            if f"data-{kind}" in attributes
        }

    def arrays(self, kind: str) -> dict[str, np.ndarray]:
        """The arrays of the page, with the types and shapes of the manifest."""
        rows = {row["name"]: row for row in self.manifest[f"{kind}s"]}
        types = {"float32": "<f4", "float16": "<f2", "bool": "|b1"}
        arrays = {}
        for name, data in self.blocks(kind).items():
            values = np.frombuffer(data, types[rows[name].get("dtype", "float32")])
            assert values.size == prod(rows[name]["shape"])
            arrays[name] = values.reshape(rows[name]["shape"])
        return arrays


@pytest.fixture
def built_script(tmp_path, monkeypatch):
    """The path of a small script that stands in for the built page."""
    path = tmp_path / "pellucid.js"
    path.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setattr("pellucid.interpret.page.html_file.SCRIPT_PATH", path)
    return path
