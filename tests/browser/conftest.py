"""One installed package, one model and one server for all tests of the page; one browser for each run of such tests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.api import Model, load
from pellucid.interpret.studies.roles import badges_path
from tests.browser.installed import install_wheel, require_buildable, run_server
from tests.browser.reading import Page
from tests.browser.small import SENTENCE, save_trained_model
from tests.browser.watched import WatchedTab, find_chromium, launch_chromium, watch_tab
from tests.page.studied import make_study
from tests.page.telling import Telling, choose_telling


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One browser, closed before the tests of another folder, because its event loop is in the way of theirs."""
    with launch_chromium() as chromium_browser:
        yield chromium_browser


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package, installed from its wheel."""
    find_chromium()
    require_buildable()
    return install_wheel(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small trained model, with a made-up study of its heads beside it."""
    path = save_trained_model(tmp_path_factory.mktemp("runs") / "small" / "best")
    loaded = load(path)
    badges_path(loaded.bundle).write_text(json.dumps(make_study(loaded)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model(directory: Path) -> Model:
    """The model of that directory, in this process."""
    return load(directory)


@pytest.fixture(scope="session")
def trace(model: Model) -> Any:
    """The trace of `SENTENCE`, computed in this process."""
    return model.trace(SENTENCE)


@pytest.fixture(scope="session")
def telling(trace: Any, directory: Path) -> Telling:
    """What the story of the page tells of that sentence, with the made-up study of the heads."""
    return choose_telling(trace, json.loads(badges_path(load(directory).bundle).read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def home(site: Path, directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `pellucid serve`, run from the wheel."""
    with run_server(site, directory, tmp_path_factory.mktemp("elsewhere")) as address:
        yield address


@pytest.fixture(scope="package")
def common_tab(browser: Any, home: str) -> Iterator[WatchedTab]:
    """A tab for all tests, because opening one takes a third of the time of opening the page."""
    with watch_tab(browser, home) as watched_tab:
        yield watched_tab


@pytest.fixture
def page(common_tab: WatchedTab) -> Iterator[Page]:
    """A tab without a page."""
    yield Page(common_tab)
    common_tab.leave_page()
