import io
import json
import logging
import re
import shlex
from pathlib import Path
from threading import Thread

import pytest
import typer

from pellucid.cli import app
from pellucid.serve.gate import JsonFormatter, log_request
from tests.serve.servers import HeldTranslator, client, request_body

ROOT = Path(__file__).resolve().parents[2]


def test_health_notices_a_worker_that_is_stuck():
    held = HeldTranslator()
    with client(held.model, stuck=0.05) as server:
        asking = Thread(target=lambda: server.post("/translate", json=request_body("Yes.")))
        asking.start()
        assert held.begun.wait(60)
        while (answer := server.get("/health")).status_code == 200:
            pass
        assert answer.status_code == 503
        assert (
            answer.json()["error"]
            == "the thread that runs the model has been at one piece of work for 0.05 s; restart it"
        )
        held.go.set()
        asking.join()
        while (answer := server.get("/health")).status_code == 503:
            pass
        assert answer.json() == {"status": "ok"}


def test_the_log_is_an_object_a_line_and_holds_no_text_and_no_key(monkeypatch):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("pellucid.serve")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "level", logging.INFO)
    with client(request_log=log_request) as server:
        server.post("/translate", json=request_body("A secret.", api_key="a-secret-key-of-many-characters"))
        server.get("/trace/secret/manifest.json?secret")
    try:
        raise RuntimeError("two\nlines")
    except RuntimeError:
        logger.exception("a request failed")
    text = stream.getvalue()
    assert "secret" not in text
    entries = [json.loads(line) for line in text.splitlines()]
    assert [(entry.get("method"), entry.get("path"), entry.get("status")) for entry in entries] == [
        ("POST", "/translate", 200),
        ("GET", "/trace/{identity}/manifest.json", 404),
        (None, None, None),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", entry["time"]) for entry in entries)
    assert "RuntimeError: two\nlines" in entries[-1]["traceback"]


def served_commands() -> dict[str, list[str]]:
    """Return the commands with which the recipes start a server, in words."""
    container = (ROOT / "recipes" / "Containerfile").read_text("utf-8")
    words = [json.loads(match) for match in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", container, re.MULTILINE)]
    unit = (ROOT / "recipes" / "pellucid.service").read_text("utf-8")
    return {
        "Containerfile": [word for part in words for word in part],
        "pellucid.service": shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0]),
    }


def copied_paths() -> list[str]:
    """Return what the container file copies from this repository."""
    container = (ROOT / "recipes" / "Containerfile").read_text("utf-8")
    return [path for line in re.findall(r"^COPY (.*) \S+$", container, re.MULTILINE) for path in line.split()]


@pytest.mark.parametrize("recipe", served_commands())
def test_the_recipes_start_a_server_with_options_that_it_has(recipe):
    program, command, *words = served_commands()[recipe]
    assert (Path(program).name, command) == ("pellucid", "serve")
    group = typer.main.get_command(app)
    serve = group.commands["serve"]  # pyright: ignore[reportAttributeAccessIssue]
    # Parsing raises for an option that is not there, and for a value that it does not take.
    context = serve.make_context("serve", words)
    assert all((ROOT / path).exists() for path in copied_paths())
    assert context.params["log_format"] == "json"
    assert len(context.params["models"]) == 1
