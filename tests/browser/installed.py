"""Pellucid from its wheel, in a folder of its own, and its server in a process that reaches this machine alone."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.page.built import ROOT, builder

PROGRAM = """
import sys

def refuse(event, given):
    if event == "socket.getaddrinfo" and given[0] not in (None, "127.0.0.1", "localhost"):
        raise OSError(f"the network is denied: {given[0]}")
    if event == "socket.connect" and isinstance(given[1], tuple) and given[1][0] not in ("127.0.0.1", "::1"):
        raise OSError(f"the network is denied: {given[1]}")

site, checkout, *words = sys.argv[1:]
sys.addaudithook(refuse)
sys.path[:] = [site, *(path for path in sys.path if path not in ("", checkout))]
import pellucid
assert pellucid.__file__.startswith(site), pellucid.__file__
from pellucid.cli import main
sys.argv = ["pellucid", *words]
main()
"""


def require_buildable() -> None:
    """Skips where no wheel can be built: no hatchling, or a page that is out of date and no Node to build it."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: `make test` installs it")
    build = builder()
    if build.problems() and not (build.machine_has_node() and (ROOT / "web" / "node_modules").is_dir()):
        pytest.skip("the page is not built: `make page` builds it")


def installed(into: Path) -> Path:
    """The folder of the package, its wheel built from this checkout and unpacked by pip, without a network."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into / "wheel"))
    [wheel] = (into / "wheel").glob("pellucid-*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--no-index", "--no-deps", "--no-compile", "--quiet"]
    run(*pip, "--disable-pip-version-check", "--target", str(into / "site"), str(wheel))
    shutil.rmtree(into / "wheel")
    return into / "site"


def run(*words: str) -> None:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def pellucid(site: Path, *words: str) -> list[str]:
    """A command that runs `pellucid` from that folder, and from nowhere else."""
    return [sys.executable, "-c", PROGRAM, str(site), str(ROOT / "src"), *words]


@contextmanager
def served(site: Path, model: Path, elsewhere: Path) -> Iterator[str]:
    """The address of `pellucid serve MODEL`; at the end nothing was said that is no message of ours."""
    said = elsewhere / "said.txt"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with said.open("w", encoding="utf-8") as log:
        words = pellucid(site, "serve", str(model), "--port", "0", "--from", "en", "--to", "es")
        process = subprocess.Popen(words, cwd=elsewhere, env=environment, stdout=log, stderr=log)
    try:
        yield address(process, said)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    text = said.read_text(encoding="utf-8")
    assert text.rstrip().endswith("stopped"), text
    assert "Traceback" not in text, text


def address(process: subprocess.Popen[bytes], said: Path) -> str:
    """What the server says of itself once it listens."""
    for _ in range(1200):
        found = re.search(r"http://127\.0\.0\.1:\d+/", said.read_text(encoding="utf-8"))
        if found:
            return found[0]
        assert process.poll() is None, said.read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError(f"it does not listen: {said.read_text(encoding='utf-8')}")
