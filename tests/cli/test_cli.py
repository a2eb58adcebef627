import pytest

from pellucid.cli.options import describe_error

COMMANDS = [
    "demo",
    "plan",
    "check",
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
    rows = [line.split(None, 1) for line in result.stdout.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert [row[0] for row in rows] == COMMANDS
    assert all(row[1].endswith(".") and not row[1].endswith("...") for row in rows)


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


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
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


def test_an_unknown_command_is_a_mistake(call):
    result = call("tranlsate")
    assert result.exit_code == 2
    assert "No such command 'tranlsate'. Did you mean 'translate'?" in result.stderr


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
