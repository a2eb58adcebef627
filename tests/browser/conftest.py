"""One browser, one installed package and one server for all tests of the page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import Model, load
from pellucid.inspect.badges import badges_path
from tests.browser.installed import installed, require_buildable, served
from tests.browser.reading import Page
from tests.browser.small import SENTENCE, save_trained
from tests.browser.watched import chromium, watched
from tests.page.studied import study_of


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Closed when the last of these tests is done: its event loop is in the way of others."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as its wheel holds it."""
    require_buildable()
    return installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="package")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small trained model, a made-up study of its heads beside it."""
    place = save_trained(tmp_path_factory.mktemp("runs") / "small" / "best")
    found = load(place)
    badges_path(found.bundle).write_text(json.dumps(study_of(found)), encoding="utf-8")
    return place


@pytest.fixture(scope="package")
def model(directory: Path) -> Model:
    """The same model here."""
    return load(directory)


@pytest.fixture(scope="package")
def trace(model: Model) -> Any:
    """What the page shows of `SENTENCE`, computed here."""
    return model.trace(SENTENCE)


@pytest.fixture(scope="package")
def home(site: Path, directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `pellucid serve`, run from the wheel."""
    with served(site, directory, tmp_path_factory.mktemp("elsewhere")) as address:
        yield address


@pytest.fixture
def page(browser: Any, home: str) -> Iterator[Page]:
    """A fresh tab, without any page yet."""
    with watched(browser, home) as found:
        yield Page(found)
