"""A server in a process of its own, as users start it."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from pellucid import bundle
from pellucid.api import load
from tests.cli.conftest import SOURCE
from tests.decode.models import LINES


@contextmanager
def started(*words: object, files: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, what it said first, and the address in it; it may open so many `files`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pellucid", "serve", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        preexec_fn=None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        yield process, said, re.findall(r"http://\S+(?=;)", said)[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_answers_what_is_under_way_before_it_stops(model: Path, stop: signal.Signals):
    with started(model, "--port", 0, "--from", "en", "--to", "es", "--engine", "torch") as (process, said, address):
        assert f"{model} is served at http://127.0.0.1:" in said
        assert "nothing leaves this machine" in said
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(translated, address, [f"The ball is blue {number}." for number in range(60)])
            while "pellucid_texts_total 60" not in read(f"{address}metrics"):
                time.sleep(0.005)
            process.send_signal(stop)
            assert len(asked.result(120)) == 60
        output, rest = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "")
        assert rest.splitlines()[-1] == "stopped"
        assert "Traceback" not in rest


def test_it_answers_however_many_connections_ask_for_nothing(model: Path):
    with started(model, "--port", 0, "--engine", "torch", files=256) as (process, _, address):
        port = int(address.rstrip("/").rpartition(":")[2])
        half_headers = [socket.create_connection(("127.0.0.1", port)) for _ in range(600)]
        for connection in half_headers:
            with suppress(OSError):  # closed already
                connection.sendall(b"GET /hea")
        assert translated(address, ["The ball is blue."])
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        for connection in half_headers:
            connection.close()
    # At most one line a minute, however many they are; the files suffice for all that are being accepted.
    assert "128 connections are open" in said
    assert "too many open files" not in said
    assert len(said.splitlines()) <= 5


def translated(address: str, texts: list[str]) -> list[str]:
    """What a client gets."""
    body = json.dumps({"q": texts, "source": "en", "target": "es"}).encode()
    with urlopen(Request(f"{address}translate", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["translatedText"]


def read(address: str) -> str:
    with urlopen(address) as answer:
        return answer.read().decode()


def test_a_taken_port_is_one_clear_sentence(call, model: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = call("serve", model, "--port", port)
    assert done.exit_code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_address_that_is_none_is_one_clear_sentence(call, model: Path):
    done = call("serve", model, "--host", "no.such.host.invalid")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "no.such.host.invalid" in done.stderr


def test_what_is_not_installed_is_one_clear_sentence(call, model: Path, monkeypatch):
    monkeypatch.setattr("pellucid.cli.serve.find_spec", lambda name: None if name == "uvicorn" else name)
    done = call("serve", model)
    assert done.exit_code == 2
    assert done.stderr == "pellucid: uvicorn is not installed; run: pip install 'pellucid[serve]'\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--characters", 0], "characters is 0, it must be 1 or more"),
        (["--seconds", -1], "seconds is -1.0, it must be above 0"),
        (["--seconds", "inf"], "seconds is inf"),
        (["--from", "en"], "--from en --to es"),
        (["--from", "english!", "--to", "es"], "not a language code"),
        (["--engine", "magic"], "magic"),
        (["--api-key-file", "no-such-file"], "no-such-file: no such file or directory"),
        (["--api-key-file", os.devnull], "should hold API keys, one a line: it holds none"),
        (["--port", 70000], "65535"),
    ],
)
def test_mistakes_are_said_before_a_model_is_loaded(call, tmp_path: Path, options, words: str):
    port = [] if "--port" in options else ["--port", 0]
    done = call("serve", tmp_path / "no-model", *options, *port)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "no-model" not in done.stderr


@pytest.fixture
def served(monkeypatch) -> list[dict]:
    """What would have been served."""
    found: list[dict] = []
    monkeypatch.setattr("pellucid.serve.running.serve_until_stopped", lambda app, listening, limits: found.append(app))
    return found


def test_an_unbuilt_page_is_one_clear_sentence(call, model: Path, monkeypatch, served):
    monkeypatch.setattr("pellucid.page.assets.SCRIPT_PATH", Path("nowhere/pellucid.js"))
    done = call("serve", model, "--port", 0, "--engine", "torch")
    assert done.exit_code == 0
    assert len([line for line in done.stderr.splitlines() if "the page is not built" in line]) == 1
    assert served


def test_an_export_is_served_in_place_of_a_conversion(call, model: Path, served):
    assert call("export", model, "int8", "--to", "ctranslate2", "--precision", "int8", "--no-gate").exit_code == 0
    done = call("serve", model, "--port", 0, "--exported", "int8")
    assert done.exit_code == 0
    assert "int8 translates; the page looks into the model that it was made of" in done.stderr
    found = served[0].state.service.model
    assert found.translator.engine.translator.compute_type.startswith("int8")
    alone = load(model, "int8", "ctranslate2").translate(LINES[:3])
    with TestClient(served[0], base_url="http://127.0.0.1") as client:
        body = {"q": LINES[:3], "source": "auto", "target": "auto"}
        assert client.post("/translate", json=body).json()["translatedText"] == [each.text for each in alone]


def test_an_export_of_another_model_is_not_served(call, model: Path, tmp_path: Path, served):
    other = tmp_path / "other"
    found = bundle.load_bundle(model)
    bundle.save_bundle(other, found.model, found.tokenizer, step=1)
    assert call("export", other, "out", "--to", "ctranslate2").exit_code == 0
    done = call("serve", model, "--port", 0, "--exported", "out")
    assert done.exit_code == 2
    assert f"out was not exported from {model} as it is now" in done.stderr
    assert not served


def test_who_can_reach_it_is_said(call, model: Path, served):
    done = call("serve", model, "--port", 0, "--host", "0.0.0.0", "--engine", "torch")
    assert "other machines can reach it" in done.stderr
    assert "nothing leaves" not in done.stderr


def test_what_it_means_that_others_reach_it_is_one_sentence(call, model: Path, tmp_path: Path, served):
    (tmp_path / "keys").write_text("a-key-of-24-characters--\n")
    serve = ("serve", model, "--port", 0, "--engine", "torch")
    for words, told in (
        (["--host", "0.0.0.0"], "anyone who reaches it may use it"),
        (["--host", "0.0.0.0", "--api-key-file", "keys"], "API keys and texts travel unencrypted"),
    ):
        warned = [line for line in call(*serve, *words).stderr.splitlines() if "put a proxy with TLS before it" in line]
        assert len(warned) == 1
        assert told in warned[0]
    assert "proxy" not in call(*serve).stderr
    assert [bool(each.state.service.keys) for each in served] == [False, True, False]


def test_the_browser_is_opened_when_asked_for(call, model: Path, monkeypatch, served):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = call("serve", model, "--port", 0, "--engine", "torch", "--open")
    assert len(opened) == 1
    assert opened[0] in done.stderr


def test_every_limit_is_an_option_with_its_default(call):
    from pellucid.serve.limits import Limits

    shown = call("serve", "--help").stdout
    for name in vars(Limits()):
        assert f"--{name.replace('_', '-')} " in shown
