"""A server in a process of its own, as users start it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from pellucid.api import load
from pellucid.store.directory import load_bundle, save_bundle
from tests.cli.conftest import SOURCE
from tests.decode.models import LINES
from tests.processes import COMMAND, ForkedProcess


@contextmanager
def run_server(
    *words: object, files: int | None = None, program: str = COMMAND, as_user: bool = False
) -> Iterator[tuple[Any, str, str]]:
    """Yield the process, its first line and the address in that; the process may open only so many `files`.

    The process is forked, or with `as_user` started as users start it, which takes seconds more.
    """
    if as_user:
        process = subprocess.Popen(
            [sys.executable, "-m", "pellucid", "serve", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert process.stderr is not None
        first_line = process.stderr.readline()
    else:
        limit = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))\n" if files else ""
        process = ForkedProcess("serve", *words, program=limit + program)
        first_line = ""
        while not first_line.endswith("\n"):
            assert process.poll() is None
            time.sleep(0.01)
            first_line = process.err.read_text(encoding="utf-8") if process.err.exists() else ""
    try:
        yield process, first_line, re.findall(r"http://\S+(?=;)", first_line)[0]
    finally:
        process.kill()
        process.communicate()


# A server that is started as users start it is stopped by Ctrl-C after the tests of tests/browser, too.
@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_the_server_prints_its_address_and_answers_open_requests_before_it_stops(model: Path, stop: signal.Signals):
    words = f"en:es={model}", "--port", 0, "--engine", "torch"
    with run_server(*words, as_user=stop == signal.SIGINT) as (process, line, address):
        assert f"{model} is served at http://127.0.0.1:" in line
        assert "nothing leaves this machine" in line
        with ThreadPoolExecutor(1) as pool:
            translations = pool.submit(
                request_translations, address, [f"The ball is blue {number}." for number in range(60)]
            )
            while "pellucid_texts_total 60" not in fetch_text(f"{address}metrics"):
                time.sleep(0.005)
            process.send_signal(stop)
            assert len(translations.result(120)) == 60
        output, messages = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "")
        assert messages.splitlines()[-1] == "stopped"
        assert "Traceback" not in messages


ENDLESS = """
import torch
from pellucid.serve import service
def translate_without_end(self, jobs, check_wanted):
    self.metrics.texts.inc(1)
    x = torch.ones(2**18)
    while True:
        x.add_(1)
service.Service.translate = translate_without_end
from pellucid.cli import main
main()
"""


def test_a_server_that_stops_in_the_midst_of_a_long_computation_ends_without_an_abort(model: Path):
    words = model, "--port", 0, "--engine", "torch", "--set", "stopping=1"
    with run_server(*words, program=ENDLESS) as (process, _, address):
        body = b'{"q": "The ball.", "source": "en", "target": "es"}'
        head = "POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while "pellucid_texts_total 1.0" not in fetch_text(f"{address}metrics"):
                time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        messages = process.communicate(timeout=120)[1]
        assert (process.returncode, messages.splitlines()[-1]) == (0, "stopped")


def test_connections_that_ask_for_nothing_do_not_keep_others_waiting(model: Path):
    with run_server(model, "--port", 0, "--engine", "torch", files=256) as (process, _, address):
        port = int(address.rstrip("/").rpartition(":")[2])
        half_headers = [socket.create_connection(("127.0.0.1", port)) for _ in range(600)]
        for connection in half_headers:
            with suppress(OSError):  # closed already
                connection.sendall(b"GET /hea")
        assert request_translations(address, ["The ball is blue."])
        process.send_signal(signal.SIGINT)
        messages = process.communicate(timeout=120)[1]
        for connection in half_headers:
            connection.close()
    # At most one line a minute after the address, however many they are; the files suffice for all being accepted.
    assert "128 connections are open" in messages
    assert "too many open files" not in messages
    assert len(messages.splitlines()[1:]) <= 5


def request_translations(address: str, texts: list[str]) -> list[str]:
    """Return the translations that a client gets."""
    body = json.dumps({"q": texts, "source": "en", "target": "es"}).encode()
    with urlopen(Request(f"{address}translate", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["translatedText"]


def fetch_text(address: str) -> str:
    with urlopen(address) as answer:
        return answer.read().decode()


def test_a_taken_port_and_an_unknown_host_are_named(refuse, model: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        sentence = refuse("serve", model, "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}" in sentence
    assert "--port" in sentence
    assert "no.such.host.invalid" in refuse("serve", model, "--host", "no.such.host.invalid")


def test_a_missing_package_is_one_clear_sentence(refuse, model: Path, monkeypatch):
    monkeypatch.setattr("pellucid.cli.serve.find_spec", lambda name: None if name == "uvicorn" else name)
    sentence = refuse("serve", model)
    assert "uvicorn is not installed" in sentence
    assert "pip install 'pellucid[serve]'" in sentence


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (["--set", "characters=0"], "'characters' is 0: it must be greater than or equal to 1"),
        (["--set", "seconds=-1"], "'seconds' is -1: it must be greater than 0"),
        (["--set", "seconds=inf"], "'seconds' is inf: it must be a finite number"),
        (["--set", "character=5"], "unknown key 'character'; did you mean 'characters'?"),
        (["--engine", "magic"], "magic"),
        (["--api-key-file", "no-such-file"], "no-such-file: no such file or directory"),
        (["--api-key-file", os.devnull], "should hold API keys, one a line: it holds none"),
        (["--port", 70000], "65535"),
        (["englishlanguage:es=no-model"], "'englishlanguage' is not a language code"),
    ],
)
def test_mistakes_are_reported_before_a_model_is_loaded(refuse, options, phrase: str):
    model = [] if "no-model" in options[0] else ["no-model"]
    port = [] if "--port" in options else ["--port", 0]
    sentence = refuse("serve", *model, *options, *port)
    assert phrase in sentence
    assert "no-model" not in sentence


@pytest.fixture
def served_apps(monkeypatch) -> list[dict]:
    """Replace the server; return the list of the apps that it would have served."""
    apps: list[dict] = []
    monkeypatch.setattr(
        "pellucid.serve.connections.serve_until_stopped", lambda app, listening, limits: apps.append(app)
    )
    return apps


def test_an_unbuilt_page_is_one_clear_sentence(call, model: Path, monkeypatch, served_apps):
    monkeypatch.setattr("pellucid.interpret.page.html_file.SCRIPT_PATH", Path("nowhere/pellucid.js"))
    result = call("serve", model, "--port", 0, "--engine", "torch")
    assert result.exit_code == 0
    assert len([line for line in result.stderr.splitlines() if "the page is not built" in line]) == 1
    assert served_apps


def test_an_export_is_served_in_place_of_a_conversion(call, model: Path, served_apps):
    assert call("export", model, "int8", "--to", "ctranslate2", "--precision", "int8", "--no-gate").exit_code == 0
    result = call("serve", model, "--port", 0, "--exported", "int8")
    assert result.exit_code == 0
    assert "int8 translates; the page looks into the model that it was made of" in result.stderr
    loaded = served_apps[0].state.service.model
    assert loaded.translator.engine.translator.compute_type.startswith("int8")
    expected = load(model, "int8", "ctranslate2").translate(LINES[:3])
    with TestClient(served_apps[0], base_url="http://127.0.0.1") as client:
        body = {"q": LINES[:3], "source": "auto", "target": "es"}
        assert client.post("/translate", json=body).json()["translatedText"] == [
            translation.text for translation in expected
        ]


def test_an_export_of_another_model_is_not_served(call, refuse, model: Path, tmp_path: Path, served_apps):
    other = tmp_path / "other"
    loaded = load_bundle(model)
    save_bundle(other, loaded.model, loaded.tokenizer, step=1)
    assert call("export", other, "out", "--to", "ctranslate2").exit_code == 0
    assert f"out was not exported from {model} as it is now" in refuse("serve", model, "--port", 0, "--exported", "out")
    assert not served_apps


def test_a_public_address_is_announced(call, model: Path, served_apps):
    result = call("serve", model, "--port", 0, "--host", "0.0.0.0", "--engine", "torch")
    assert "other machines can reach it" in result.stderr
    assert "nothing leaves" not in result.stderr


def test_a_public_address_is_warned_about_in_one_sentence(call, model: Path, tmp_path: Path, served_apps):
    (tmp_path / "keys").write_text("a-key-of-24-characters--\n")
    serve = ("serve", model, "--port", 0, "--engine", "torch")
    for words, message in (
        (["--host", "0.0.0.0"], "anyone who reaches it may use it"),
        (["--host", "0.0.0.0", "--api-key-file", "keys"], "API keys and texts travel unencrypted"),
    ):
        warnings = [
            line for line in call(*serve, *words).stderr.splitlines() if "put a proxy with TLS before it" in line
        ]
        assert len(warnings) == 1
        assert message in warnings[0]
    assert "proxy" not in call(*serve).stderr
    assert [bool(app.state.service.keys) for app in served_apps] == [False, True, False]


def test_the_browser_is_opened_on_request(call, model: Path, monkeypatch, served_apps):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = call("serve", model, "--port", 0, "--engine", "torch", "--open")
    assert len(opened) == 1
    assert opened[0] in result.stderr
