"""README: its commands parse, its files exist, and its Python runs."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from pellucid.cli import app
from tests.decode.models import random_model, small_tokenizer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    command.split(" > ")[0].strip().removeprefix(".venv/bin/pellucid ")
    for _, block in BLOCKS
    for line in block.splitlines()
    for command in line.split("|")
    if command.strip().startswith(".venv/bin/pellucid ")
]


def test_there_are_commands_to_check():
    names = {command.split()[0] for command in COMMANDS}
    assert names == {
        "train",
        "translate",
        "evaluate",
        "explain",
        "export",
        "remember",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_parses(command):
    name, *arguments = shlex.split(command, comments=True)
    group = get_command(app)
    subcommand = group.get_command(typer.Context(group), name)  # pyright: ignore[reportAttributeAccessIssue]
    with subcommand.make_context(name, arguments):
        pass


def test_every_make_target_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"`make (\w+)|^make (\w+)", README, re.MULTILINE)
    assert {"demo", "test"} <= {a or b for a, b in targets}
    for target in {a or b for a, b in targets}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_python_runs(tmp_path):
    from pellucid.store.directory import save_bundle

    model_directory = tmp_path / "best"
    tokenizer = small_tokenizer()
    save_bundle(model_directory, random_model(1, tokenizer.source_vocabulary, tokenizer.target_vocabulary), tokenizer)
    code = "".join(block for language, block in BLOCKS if language == "python")
    assert code.count('"runs/demo/best"') == 1
    exec(compile(code.replace("runs/demo/best", str(model_directory)), "README.md", "exec"), {})
