"""A small model with a made-up study of its heads, and a reader for the page of its server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from pellucid.api import Model, load
from pellucid.interpret.studies.roles import badges_path, list_heads
from pellucid.store.directory import save_bundle
from tests.page.browser import open_tab
from tests.page.traces import HOSTILE
from tests.serve.servers import running
from tests.trace.traced import small_traced

SENTENCE, TARGET = "The ball is blue.", "La bola es azul."
SIZES: dict[str, Any] = {"d_model": 12, "heads": 3, "encoder_layers": 1, "decoder_layers": 2, "tie": "decoder"}


def make_studied_model(folder: Path, **sizes: Any) -> Model:
    """Save a random model with a made-up study of its heads, which has hostile text in it, and load the model."""
    random_model = small_traced(**{**SIZES, **sizes})
    save_bundle(folder / "best", random_model.bundle.model, random_model.bundle.tokenizer, step=0)
    model = load(folder / "best")
    badges_path(model.bundle).write_text(json.dumps(make_study(model)), encoding="utf-8")
    return model


def make_study(model: Model) -> dict[str, Any]:
    """Make up a study: every second head has a role, and the cost of its silence is drawn, sometimes below 0."""
    rng = np.random.default_rng(31)
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
                list_heads(model.bundle.model.config), rng.normal(0.1, 0.2, 99), strict=False
            )
        ],
    }


class Reader:
    """The page of a server, read as text and numbers."""

    def __init__(self, tab: Any, home: str):
        self.tab = tab
        self.home = home

    def open(self, view: str, **fields: object) -> "Reader":
        """Open a view of the sentence with its given translation, and wait for all numbers."""
        self.tab.goto(f"{self.home}#{urlencode({'v': view, 's': SENTENCE, 'y': TARGET, **fields})}")
        self.tab.wait_for_selector(f".view-{view}")
        return self.settle()

    def settle(self) -> "Reader":
        """Wait until nothing is being fetched."""
        # polled from outside, because the policy of the page lets no test put a condition into it
        for _ in range(200):
            inside = self.tab.inner_text(".centre")
            if "Fetching the numbers" not in inside and not self.tab.locator(".waiting, .busy:not(:empty)").count():
                return self
            self.tab.wait_for_timeout(40)
        raise AssertionError("the numbers never came")

    def text(self, selector: str) -> str:
        return self.tab.inner_text(selector)

    def shows_view(self, view: str) -> bool:
        """Whether this view is in the middle of the page."""
        return self.tab.locator(f".view-{view}").count() == 1

    def card(self, name: str) -> Any:
        return self.tab.locator(f"[data-card={name}]")

    def numbers(self, name: str, inside: str = "") -> list[float]:
        """The unrounded numbers of a card, in their order."""
        values = self.card(name).locator(f"{inside} .value-shown[title]")
        titles = values.evaluate_all("all => all.map(each => each.title)")
        return [float(title) for title in titles]


@contextmanager
def open_reader(model: Model) -> Iterator[Reader]:
    """Run a server of the model and open its page in a reader."""
    with running(model) as port, open_tab(viewport={"width": 1440, "height": 900}) as tab:
        tab.set_default_timeout(30000)
        yield Reader(tab, f"http://127.0.0.1:{port}/")
