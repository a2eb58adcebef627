"""Firefox and WebKit, driven by the protocols that they speak themselves; both come from Debian's packages."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

MINI_BROWSER = Path("/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser")
SECONDS_TO_START = 60

Driver = Callable[[str, dict[str, Any]], Any]
"""Performs a command of WebDriver, by its path there, with its arguments."""


def free_port() -> int:
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def require(*programs: str) -> None:
    """Skip the test where a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; apt-get install firefox-esr webkit2gtk-driver xvfb xauth")


@contextmanager
def run_program(*command: str, **options: Any) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def connect(port: int) -> socket.socket:
    """Connect to a program that is still starting."""
    end = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextmanager
def firefox(folder: Path) -> Iterator[Driver]:
    """Start Firefox; its own protocol, Marionette, sends WebDriver's commands as JSON after their length."""
    require("firefox-esr")
    port = free_port()
    (folder / "user.js").write_text(f'user_pref("marionette.port", {port});\n', encoding="utf-8")
    command = ("firefox-esr", "--headless", "--marionette", "--no-remote", "--profile", str(folder))
    with run_program(*command), connect(port) as connection, connection.makefile("rb") as answers:
        names = {"url": "Navigate", "execute/async": "ExecuteAsyncScript"}

        def read() -> Any:
            length = b""
            while (byte := answers.read(1)) != b":":
                length += byte
            return json.loads(answers.read(int(length)))

        def perform(command: str, arguments: dict[str, Any]) -> Any:
            message = json.dumps([0, 1, f"WebDriver:{names.get(command, command)}", arguments]).encode()
            connection.sendall(b"%d:%s" % (len(message), message))
            _, _, error, value = read()
            assert not error, error
            return value.get("value") if value else None

        read()  # its greeting
        perform("NewSession", {"capabilities": {}})
        yield perform


@contextmanager
def webkit(folder: Path) -> Iterator[Driver]:
    """Start WebKit's small browser on a screen of its own; its driver takes WebDriver's commands over HTTP."""
    require("WebKitWebDriver", "Xvfb")
    if not MINI_BROWSER.exists():
        pytest.skip(f"{MINI_BROWSER} is not installed")
    port, display = free_port(), f":{os.getpid() % 1000 + 100}"

    def post(path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["value"]

    options = {"binary": str(MINI_BROWSER), "args": ["--automation"]}
    wanted = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
    environment = {**os.environ, "DISPLAY": display, "HOME": str(folder)}
    with (
        run_program("Xvfb", display, "-screen", "0", "1440x900x24"),
        run_program("WebKitWebDriver", f"--port={port}", env=environment),
    ):
        connect(port).close()
        session = post("/session", wanted)["sessionId"]
        yield lambda command, arguments: post(f"/session/{session}/{command}", arguments)
