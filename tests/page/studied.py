"""A small model with a made-up study of its heads beside it, and what reads the page of its server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from pellucid import bundle
from pellucid.api import Model, load
from pellucid.inspect.badges import badges_path, list_heads
from tests.page.browser import page
from tests.page.traces import HOSTILE
from tests.serve.servers import running
from tests.trace.traced import small_traced

SENTENCE, TARGET = "The ball is blue.", "La bola es azul."
SIZES: dict[str, Any] = {"d_model": 12, "heads": 3, "encoder_layers": 1, "decoder_layers": 2, "tie": "decoder"}


def studied(folder: Path, **sizes: Any) -> Model:
    """The model as it is loaded from its directory, and the badges of its heads: drawn numbers, hostile words."""
    made = small_traced(**{**SIZES, **sizes})
    bundle.save_bundle(folder / "best", made.bundle.model, made.bundle.tokenizer, step=0)
    found = load(folder / "best")
    badges_path(found.bundle).write_text(json.dumps(study_of(found)), encoding="utf-8")
    return found


def study_of(model: Model) -> dict[str, Any]:
    """Every second head has a role; what silence costs is drawn, some below nothing."""
    draw = np.random.default_rng(31)
    badge = {"mark": "R", "says": f"reads {HOSTILE}", "share": 0.7, "beside": 0.2}
    return {
        "format": 1,
        "sha256": model.manifest["files"]["model.safetensors"]["sha256"],
        "pairs": 1031,
        "loss": 2.347,
        "rules": {"R": f"rare {HOSTILE}"},
        "heads": [
            {
                "attention": name,
                "head": head,
                "badges": [badge] * (head % 2),
                "silent": value,
                "error": 0.011,
                "gradient": 0.5,
            }
            for (name, head), value in zip(
                list_heads(model.bundle.model.config), draw.normal(0.1, 0.2, 99), strict=False
            )
        ],
    }


class Reader:
    """The page of a server, read in words and numbers."""

    def __init__(self, tab: Any, home: str):
        self.tab = tab
        self.home = home

    def open(self, view: str, **place: object) -> "Reader":
        """A picture of the sentence with its given translation, all numbers come."""
        self.tab.goto(f"{self.home}#{urlencode({'v': view, 's': SENTENCE, 'y': TARGET, **place})}")
        self.tab.wait_for_selector(f".view-{view}")
        return self.settled()

    def settled(self) -> "Reader":
        """Waits until nothing is being fetched; from outside, as the page's policy lets no test put a condition in."""
        for _ in range(200):
            inside = self.tab.inner_text(".centre")
            if "Fetching the numbers" not in inside and not self.tab.locator(".waiting, .busy:not(:empty)").count():
                return self
            self.tab.wait_for_timeout(40)
        raise AssertionError("the numbers never came")

    def text(self, selector: str) -> str:
        return self.tab.inner_text(selector)

    def view_is(self, view: str) -> bool:
        """Whether this picture stands in the middle."""
        return self.tab.locator(f".view-{view}").count() == 1

    def card(self, name: str) -> Any:
        return self.tab.locator(f"[data-card={name}]")

    def numbers(self, name: str, inside: str = "") -> list[float]:
        """The unrounded numbers of a card, in their order."""
        values = self.card(name).locator(f"{inside} .value-shown[title]")
        titles = values.evaluate_all("all => all.map(each => each.title)")
        return [float(each) for each in titles]


@contextmanager
def served(model: Model) -> Iterator[Reader]:
    """A reader of its page."""
    with running(model) as port, page(viewport={"width": 1440, "height": 900}) as tab:
        tab.set_default_timeout(8000)
        yield Reader(tab, f"http://127.0.0.1:{port}/")
