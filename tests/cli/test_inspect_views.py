"""Keys and types of `--json`, and heads of tables, of every `pellucid inspect`: what scripts of users read.

`inspect_views.toml` has them by command. A new key or column is added there; one that goes or changes breaks scripts.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.inspecting import app
from tests.cli.test_inspect_step import save_one_update

VIEWS = tomllib.loads(Path(__file__).with_name("inspect_views.toml").read_text(encoding="utf-8"))
FILES = {
    "s": ["The ball.", "Yes.", "the dog drank"],
    "t": ["La bola.", "Sí.", "el perro bebió"],
    "gold": ["0-0 1-1", "0-0", "0-0 1p1"],
}


def describe_types(value: Any, path: str = "") -> set[tuple[str, str]]:
    """Return the path of each value in an object of JSON with the type of the value.

    >>> sorted(describe_types({"a": [1, 2.5], "b": {"c": None}}))
    [('a[]', 'float'), ('a[]', 'int'), ('b.c', 'null')]
    """
    if isinstance(value, dict):
        below = [(f"{path}.{key}".lstrip("."), item) for key, item in value.items()]
    elif isinstance(value, list):
        below = [(f"{path}[]", item) for item in value]
    else:
        return {(path, "null" if value is None else type(value).__name__)}

    described = set()
    for item_path, item in below:
        described |= describe_types(item, item_path)
    return described or {(path, type(value).__name__)}


def join_types(objects: list[Any]) -> dict[str, str]:
    """Return, for each path in one of the objects, all types that it has, in alphabetical order."""
    types: dict[str, set[str]] = {}
    for value in objects:
        for path, name in describe_types(value):
            types.setdefault(path, set()).add(name)
    return {path: " or ".join(sorted(names)) for path, names in types.items()}


@pytest.fixture
def inspect(call, model, tmp_path):
    """Return a function that runs the command of a view; MODEL is the small model, RUN a run of one update."""
    for name, lines in FILES.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(view: str, *more: str):
        words = VIEWS[view]["words"]
        if "RUN" in words:
            save_one_update(tmp_path / "run", "adam")
        places = {"MODEL": model, "RUN": "run"}
        result = call("inspect", *[places.get(word, word) for word in words], *more)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_every_command_has_a_view():
    assert {command.name for command in app.registered_commands} == {view["words"][0] for view in VIEWS.values()}


@pytest.mark.parametrize("view", VIEWS)
def test_the_keys_and_types_of_json_stay(inspect, view: str):
    objects = [json.loads(line) for line in inspect(view, "--json").splitlines()]
    assert join_types(objects) == VIEWS[view]["json"]


@pytest.mark.parametrize("view", VIEWS)
def test_the_heads_of_tables_stay(inspect, view: str):
    lines = [" ".join(line.split()) for line in inspect(view).splitlines()]
    assert [line for line in lines if line in VIEWS[view]["heads"]] == VIEWS[view]["heads"]
