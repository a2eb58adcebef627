"""A small model that writes nonsense, a client of a server for it, and a translator that waits until it is released."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import sleep
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from pellucid.api import Model, load
from pellucid.decode.request import SearchConfig
from pellucid.decode.translation import Translation
from pellucid.localize.terminology import Terms
from pellucid.serve.app import create_app
from pellucid.serve.connections import bind_socket, make_server
from pellucid.serve.gate import ApiKeys
from pellucid.serve.settings import Languages, Limits
from pellucid.store.directory import save_bundle
from tests.decode.models import random_model, small_tokenizer

EN_ES = Languages("en", "es")


@cache
def small_model() -> Model:
    """Make a model that reads and writes at most 31 pieces."""
    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31}
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "best"
        save_bundle(directory, random_model(5, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
        return load(directory)


@contextmanager
def client(model: Model | None = None, **options: Any) -> Iterator[TestClient]:
    """Make a client of a server of the small model; options other than those of `Limits` are the server's."""
    limits = Limits(**{name: options.pop(name) for name in list(options) if name in vars(Limits())})
    app = create_app(model or small_model(), limits, **{"languages": EN_ES, **options})
    with TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 1), raise_server_exceptions=False
    ) as test_client:
        yield test_client


def request_body(q: object, **more: object) -> dict[str, object]:
    """Return the body of a request to translate."""
    return {"q": q, "source": "en", "target": "es", **more}


class HeldTranslator:
    """The small model's translator, which waits until it is released, and records what it translates."""

    context = 0

    def __init__(self) -> None:
        self.go = Event()
        self.begun = Event()
        self.translated: list[list[str]] = []

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        *,
        terms: Terms | None,
        check_wanted: Callable[[], None],
        **more: Any,
    ) -> list[Translation]:
        self.translated.append(list(lines))
        self.begun.set()
        assert self.go.wait(60)  # for a test that fails: one that passes always sets it
        return small_model().translator.translate(lines, config, terms=terms)

    @property
    def model(self) -> Model:
        """The small model with this translator."""
        return replace(small_model(), translator=self)  # pyright: ignore[reportArgumentType]


class EndlessTranslator(HeldTranslator):
    """The small model's translator, which has no end for the text "Endless." until nobody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = Event()
        self.go.set()

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        *,
        terms: Terms | None,
        check_wanted: Callable[[], None],
        **more: Any,
    ) -> list[Translation]:
        self.begun.set()
        try:
            # Not quite without end, so that a test that fails ends too.
            for _ in range(2000 if "Endless." in lines else 0):
                check_wanted()
                sleep(0.01)
        except Exception:
            self.stopped.set()
            raise
        return super().translate(lines, config, terms=terms, check_wanted=check_wanted)


@contextmanager
def running(model: Model, keys: ApiKeys | None = None, **limits: Any) -> Iterator[int]:
    """Run a real server on a free port, and yield the port."""
    server_limits = Limits(**limits)
    with running_app(create_app(model, server_limits, languages=EN_ES, keys=keys), server_limits) as port:
        yield port


@contextmanager
def running_app(app: FastAPI, limits: Limits) -> Iterator[int]:
    """Run the server of an application on a free port, and yield the port."""
    server = make_server(app, limits)
    with bind_socket("127.0.0.1", 0) as listener:
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
