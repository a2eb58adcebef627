"""The module web/build.py and the folders of the page, for tests of the page."""

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "pellucid" / "interpret" / "page" / "static"


def load_builder() -> ModuleType:
    """Import web/build.py, which is not part of the package."""
    spec = importlib.util.spec_from_file_location("pellucid_page_build", WEB / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment_with_node() -> dict[str, str]:
    """An environment with Node on its path; skip the test if there is no Node, or nothing is installed in web/."""
    try:
        path = load_builder().path_with_node()
    except ValueError as error:
        pytest.skip(str(error))
    if not (WEB / "node_modules" / "esbuild").is_dir():
        pytest.skip("web/node_modules is missing: `make page` installs it")
    return {**os.environ, "PATH": path}


def copy_sources(into: Path) -> Path:
    """Copy the sources of the page to another path, with what the build needs of node_modules."""
    web = into / "elsewhere" / "web"
    ignored = shutil.ignore_patterns("typescript", "@typescript", "@types", "undici-types", ".bin", "test")
    shutil.copytree(WEB, web, ignore=ignored)
    return web
