"""Pellucid installed from its wheel, and its server in a process that reaches this machine alone."""

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

from tests.page.built import ROOT, load_builder

PROGRAM = """
import sys

def refuse(event, arguments):
    if event == "socket.getaddrinfo" and arguments[0] not in (None, "127.0.0.1", "localhost"):
        raise OSError(f"the network is denied: {arguments[0]}")
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1"):
        raise OSError(f"the network is denied: {arguments[1]}")

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
    """Skip the test if no wheel can be built: no hatchling, or a page that is out of date and no Node to build it."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: `make test` installs it")
    build = load_builder()
    if build.problems() and not (build.machine_has_node() and (ROOT / "web" / "node_modules").is_dir()):
        pytest.skip("the page is not built: `make page` builds it")


def install_wheel(into: Path) -> Path:
    """Build a wheel from this checkout, unpack it by pip without a network, and return the folder of the package."""
    run_command(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into / "wheel"))
    [wheel] = (into / "wheel").glob("pellucid-*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--no-index", "--no-deps", "--no-compile", "--quiet"]
    run_command(*pip, "--disable-pip-version-check", "--target", str(into / "site"), str(wheel))
    shutil.rmtree(into / "wheel")
    return into / "site"


def run_command(*command: str) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def pellucid_command(site: Path, *arguments: str) -> list[str]:
    """The command that runs `pellucid` from that folder, and from nowhere else."""
    return [sys.executable, "-c", PROGRAM, str(site), str(ROOT / "src"), *arguments]


@contextmanager
def run_server(site: Path, model: Path, working_directory: Path) -> Iterator[str]:
    """Run `pellucid serve MODEL`, yield its address, and check at the end that it stopped without a traceback."""
    log_path = working_directory / "said.txt"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log_path.open("w", encoding="utf-8") as log:
        command = pellucid_command(site, "serve", f"en:es={model}", "--port", "0")
        process = subprocess.Popen(command, cwd=working_directory, env=environment, stdout=log, stderr=log)
    try:
        yield wait_for_address(process, log_path)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    text = log_path.read_text(encoding="utf-8")
    assert text.rstrip().endswith("stopped"), text
    assert "Traceback" not in text, text


def wait_for_address(process: subprocess.Popen[bytes], log_path: Path) -> str:
    """Wait until the server listens, and return the address from its output."""
    for _ in range(1200):
        match = re.search(r"http://127\.0\.0\.1:\d+/", log_path.read_text(encoding="utf-8"))
        if match:
            return match[0]
        assert process.poll() is None, log_path.read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError(f"it does not listen: {log_path.read_text(encoding='utf-8')}")
