"""A small model that writes nonsense, fast; a client of a server for it; and a model that waits until it is let go."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from starlette.testclient import TestClient

from pellucid import bundle
from pellucid.api import Model, load
from pellucid.decode.assemble import Translation
from pellucid.decode.config import SearchConfig
from pellucid.decode.terms import Terms
from pellucid.serve.app import create_app
from pellucid.serve.languages import Languages
from pellucid.serve.limits import Limits
from pellucid.serve.running import bind_socket, make_server
from tests.decode.models import random_model, small_tokenizer

EN_ES = Languages("en", "es")


@cache
def small_model() -> Model:
    """Reads and writes at most 31 pieces."""
    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31}
    with TemporaryDirectory() as folder:
        place = Path(folder) / "best"
        bundle.save_bundle(place, random_model(5, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
        return load(place)


@contextmanager
def client(model: Model | None = None, **given: Any) -> Iterator[TestClient]:
    """What asks a server of the small model, from this machine; other names than those of `Limits` are the server's."""
    limits = Limits(**{name: given.pop(name) for name in list(given) if name in vars(Limits())})
    app = create_app(model or small_model(), limits, **{"languages": EN_ES, **given})
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1), raise_server_exceptions=False) as found:
        yield found


def asked(q: object, **more: object) -> dict[str, object]:
    """The body of a question."""
    return {"q": q, "source": "en", "target": "es", **more}


class Held:
    """The small model's translator, which does not begin before it is let go, and counts what it is asked."""

    def __init__(self) -> None:
        self.go = Event()
        self.begun = Event()
        self.asked: list[list[str]] = []

    def translate(self, lines: Sequence[str], config: SearchConfig, *, terms: Terms | None) -> list[Translation]:
        self.asked.append(list(lines))
        self.begun.set()
        assert self.go.wait(5)
        return small_model().translator.translate(lines, config, terms=terms)

    @property
    def model(self) -> Model:
        """The model that translates so."""
        return replace(small_model(), translator=self)  # pyright: ignore[reportArgumentType]


@contextmanager
def running(model: Model, **limits: Any) -> Iterator[int]:
    """A real server on a free port, which is yielded."""
    given = Limits(**limits)
    server = make_server(create_app(model, given, languages=EN_ES), given)
    with bind_socket("127.0.0.1", 0) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
