import dataclasses
import re
import typing
from functools import cache

import pytest
import typer

from pellucid.cli import app
from pellucid.cli.options import describe_error
from pellucid.cli.removed_options import REMOVED_OPTIONS
from pellucid.decode.request import SearchConfig
from pellucid.serve.settings import Limits
from pellucid.training.config import RunConfig

COMMANDS = [
    "demo",
    "plan",
    "align",
    "check",
    "terms",
    "convert",
    "prepare",
    "train",
    "translate",
    "remember",
    "explain",
    "serve",
    "evaluate",
    "compare",
    "score",
    "verify",
    "calibrate",
    "improve",
    "distill",
    "export",
    "import",
    "push",
    "mini",
    "inspect",
]


def test_the_help_lists_every_command_with_a_whole_sentence(call):
    result = call("--help")
    assert result.exit_code == 0
    lines = result.stdout.partition("\nStart:\n")[2].splitlines()
    rows = [line.split(None, 1) for line in lines if line.startswith("  ")]
    assert sorted(row[0] for row in rows) == sorted(COMMANDS)
    assert all(row[1].endswith(".") and not row[1].endswith("...") for row in rows)
    groups = [line for line in lines if line and not line.startswith(" ")]
    assert groups == ["Prepare text:", "Train:", "Translate:", "Measure:", "Look inside:", "Exchange models:"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_examples(call, command: str):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"pellucid {command} " in result.stdout.partition("Examples:\n")[2] + " "


def test_pellucid_without_arguments_shows_the_help(call):
    result = call()
    assert "Usage: pellucid" in result.output
    assert result.exit_code == 2


@pytest.mark.parametrize("words", [(), ("translate",), ("inspect",), ("inspect", "heads")])
def test_help_has_a_short_name_everywhere(call, words):
    short, long = call(*words, "-h"), call(*words, "--help")
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    assert "Usage: pellucid" in short.stdout


@pytest.mark.parametrize("name", ["bash", pytest.param("zsh", marks=pytest.mark.slow), "fish"])
def test_shells_can_complete_commands_and_options(shell, name):
    script = shell(_PELLUCID_COMPLETE=f"source_{name}").stdout
    assert f"_PELLUCID_COMPLETE=complete_{name}".encode() in script
    settings = {"bash": {"COMP_WORDS": "pellucid {}", "COMP_CWORD": "{}"}}
    fish_settings = {"_TYPER_COMPLETE_ARGS": "pellucid {}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for words, word_index, expected in (
        ("tr", "1", b"translate"),
        ("inspect emb", "2", b"embedding"),
        ("train --ste", "2", b"--steps"),
    ):
        environment = {
            key: value.format(word_index if key == "COMP_CWORD" else words)
            for key, value in settings.get(name, fish_settings).items()
        }
        assert expected in shell(_PELLUCID_COMPLETE=f"complete_{name}", **environment).stdout


def test_the_version_is_printed(call):
    assert call("--version").stdout.startswith("pellucid")


def test_an_unknown_command_is_a_mistake(refuse):
    assert "No such command 'tranlsate'. Did you mean 'translate'?" in refuse("tranlsate")


def test_an_error_inside_pellucid_is_not_reported_as_a_mistake_of_the_user(call, monkeypatch, tmp_path):
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("pellucid.api.load", fail)
    (tmp_path / "a").write_text("Yes.\n", encoding="utf-8")
    result = call("score", "model", "--source", "a", "--target", "a")
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)


def test_an_interrupted_command_ends_as_shells_expect(call, monkeypatch, tmp_path):
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pellucid.api.load", interrupt)
    (tmp_path / "a").write_text("Yes.\n", encoding="utf-8")
    result = call("score", "model", "--source", "a", "--target", "a")
    assert (result.exit_code, result.stderr) == (130, "pellucid: interrupted\n")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "a.txt: no such file or directory"),
        (OSError(28, "No space left on device"), "no space left on device"),
        (OSError("odd"), "odd"),
        (ValueError("beam is 0"), "beam is 0"),
        (ValueError(), "ValueError"),
    ],
)
def test_errors_are_described_as_sentences(error, words: str):
    assert describe_error(error) == words


@cache
def read_commands() -> typing.Any:
    """Return all commands, which Typer makes anew at each call."""
    return typer.main.get_command(app)


def options_of(command: str) -> set[str]:
    """Return the options of a command, such as "inspect heads"."""
    found = read_commands()
    for name in command.split():
        found = found.commands[name]
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


def has_setting(command: str, path: str) -> bool:
    """Whether a command takes `--set path=...`."""
    kind: typing.Any = {"serve": Limits, **dict.fromkeys(("translate", "evaluate", "compare"), SearchConfig)}.get(
        command, RunConfig
    )
    for name in path.split("."):
        if not dataclasses.is_dataclass(kind) or name not in (hints := typing.get_type_hints(kind)):
            return False
        kind = hints[name]
    return "--set" in options_of(command)


@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command, options in REMOVED_OPTIONS.items() for option in options]
)
def test_an_option_that_was_removed_says_what_to_write_instead_and_that_is_there(refuse, command: str, option: str):
    instead = REMOVED_OPTIONS[command][option]
    for words in ([option, "5"], [f"{option}=5"]):
        assert refuse(*command.split(), *words) == f"pellucid: {option} was removed; {instead}"
    assert option not in options_of(command)
    other = re.search("`pellucid ([a-z ]+)", instead)
    asked = other[1].strip() if other else command
    assert set(re.findall(r"--[a-z-]+", instead)) <= options_of(asked)
    assert all(has_setting(command, path) for path in re.findall(r"--set ([a-z._]+)=", instead))


@pytest.mark.parametrize(
    ("words", "example"),
    [
        (("train", "a.toml"), "train.steps=5000"),
        (("translate", "m"), "max_extra=80"),
        (("evaluate", "m", "--source", "a"), "max_extra=80"),
        (("compare", "a", "b"), "max_extra=80"),
        (("serve", "m"), "characters=2000"),
    ],
)
def test_a_setting_that_is_none_is_refused_with_an_example_for_the_command(refuse, tmp_path, words, example: str):
    (tmp_path / "a.toml").write_text("", encoding="utf-8")
    assert f"--set 'nothing' is not KEY=VALUE, such as --set {example} " in refuse(*words, "--set", "nothing")
    assert has_setting(words[0], example.partition("=")[0])
