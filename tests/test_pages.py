"""Generated pages of the book hold all that they are made from, and commands on pages show a terminal's output."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from pellucid.config import key_of_field
from pellucid.decode.request import SearchConfig
from pellucid.model import ModelConfig
from pellucid.model.glossary import glossary
from pellucid.training.config import CorpusConfig, RunConfig
from tools import pages
from tools.book import bash, convert_docstring

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def settings() -> str:
    return pages.settings_page()


SECTIONS = {
    "Of the run": RunConfig,
    **{f"[{name}]": kind for name, kind in get_type_hints(RunConfig).items() if is_dataclass(kind)},
    "[[data.corpus]]": CorpusConfig,
    "Of a search": SearchConfig,
}


@pytest.mark.parametrize(("heading", "kind"), SECTIONS.items())
def test_every_setting_stands_in_its_section_once(settings, heading, kind):
    [section] = [section for section in settings.split("\n## ") if section.partition("\n")[0] == heading]
    hints = get_type_hints(kind)
    names = [key_of_field(f.name) for f in fields(kind) if not is_dataclass(hints[f.name]) and f.name != "corpus"]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == names


def test_defaults_and_choices_are_those_of_the_code(settings):
    assert "| `norm` | `pre` (or `post`, `rms`) |" in settings
    assert f"| `epsilon` | `{1e-9}` |" in settings
    assert "| `dropout` | `0.1` |" in settings
    assert "| `weight_decay` | `0.0` |" in settings
    assert "| `steps` | (whole number) | updates to make; name either this or minutes |" in settings
    assert "| `shards` | (text or list) |" in settings
    assert "| `joint` | `true` |" in settings


def test_every_visible_tensor_stands_in_the_glossary():
    page = pages.glossary_page()
    for options in ({}, {"norm": "post"}, {"positions": "learned"}, {"positions": "rotary"}, {"activation": "swiglu"}):
        config = ModelConfig(40, 40, 12, 24, 2, 1, 1, **options)  # pyright: ignore[reportArgumentType]
        for row in glossary(config):
            name, dims = row.name.replace(".0.", ".N."), row.dims
            twin = f"| `{name.replace('decoder', 'encoder')}` | {dims.replace('T', 'S')} |"
            assert f"| `{name}` | {dims} |" in page or twin in page, (options, row.name)


IMPORTED = re.compile(
    r"^from (pellucid[\w.]*|floors|hospital|plain_pictures) import (?:\(([^)]+)\)|(.+))$", re.MULTILINE
)
INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)\n:pyobject: ([\w.]+)$", re.MULTILINE)


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/*/*.md")), ROOT / "README.md"], ids=lambda page: page.stem)
def test_a_page_takes_only_names_that_the_code_has(page):
    text = page.read_text(encoding="utf-8")
    for module, several, line in IMPORTED.findall(text):
        for name in re.findall(r"\w+", re.sub(r" as \w+", "", several or line)):
            exec(f"from {module} import {name}", {})
    for file, name in INCLUDED.findall(text):
        code = (page.parent / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:def|class) {name.split('.')[-1]}\b", code, re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("name", pages.PAGES)
def test_links_of_generated_pages_lead_somewhere(name):
    page = ROOT / "docs" / name
    links = re.findall(r"\]\((\.[^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_a_page_shows_output_whole_and_in_order(capsys):
    bash("", "printf 'á%.0s' {1..150}; echo; echo second >&2; echo third")
    assert capsys.readouterr().out == "á" * 150 + "\nsecond\nthird\n"


def test_a_command_that_fails_on_a_page_is_an_error():
    for cell in ("echo why; exit 3", "exit 3 | cat"):
        with pytest.raises(RuntimeError, match="exit code 3"):
            bash("", cell)


def test_converted_docstrings_keep_their_code_and_their_signs():
    lines = ["Takes `decoder.*.cross` and *args | none.", "", "    trace['a*b']  # `as it is`", ""]
    convert_docstring(None, "", "", None, None, lines)  # pyright: ignore[reportArgumentType]
    assert lines == [
        "Takes ``decoder.*.cross`` and \\*args \\| none.",
        "",
        "::",
        "",
        "    trace['a*b']  # `as it is`",
        "",
    ]
