"""Manifests of strangers: what is trusted later is refused, by its name, where it is not of its kind and size."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pellucid import api
from pellucid.data.formats.units import is_code
from pellucid.data.languages import is_language_code
from pellucid.interop.hub import write_model_card
from pellucid.store import atomic, manifest_checks
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import random_model, small_tokenizer

SOUND: dict[str, Any] = {
    "data": "0" * 64,
    "pairs": [{"read": 12, "corpus": "train.en", "trained_on": 11, "held_out": 1, "left_out": {"too long": 0}}],
    "step": 7,
    "good": True,
    "longest_source": 30,
    "languages": {"source": "en", "target": "pt-BR"},
    "context": 1,
    "reference": {"lines": 2, "beam": 4, "length_penalty": 1.0},
    "dev": {"dev_loss": 0.5, "bleu": 31.5, "chrf": 60, "signatures": {"bleu": "nrefs:1"}},
    "start": {"from": "runs/best", "sha256": "0" * 64, "step": 3, "longest_source": None, "languages": None},
    "imported": {"from": "Helsinki-NLP/opus-mt-en-es", "format": "marian"},
    "improved": {"corrections": 3, "held_out": 0, "without": [], "dev": {"bleu": [1.0, 2.0]}},
}
PLACES = [  # fields of the sound manifest, as steps into it, whose values must be of one kind
    ("data",),
    ("pairs",),
    ("pairs", 0),
    ("pairs", 0, "corpus"),
    ("pairs", 0, "read"),
    ("pairs", 0, "trained_on"),
    ("pairs", 0, "held_out"),
    ("pairs", 0, "left_out"),
    ("pairs", 0, "left_out", "too long"),
    ("step",),
    ("good",),
    ("longest_source",),
    ("languages",),
    ("languages", "source"),
    ("languages", "target"),
    ("context",),
    ("reference",),
    ("reference", "lines"),
    ("reference", "beam"),
    ("reference", "length_penalty"),
    ("dev",),
    ("dev", "dev_loss"),
    ("dev", "bleu"),
    ("dev", "signatures"),
    ("dev", "signatures", "bleu"),
    ("start",),
    ("start", "from"),
    ("start", "sha256"),
    ("start", "step"),
    ("start", "longest_source"),
    ("imported",),
    ("imported", "from"),
    ("improved",),
    ("versions",),
    ("versions", "torch"),
]
ESCAPE = "\x1b[31mred"
HUGE = 10**400


def deep(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


def sign_anew(directory: Path, **changes: Any) -> None:
    """Change entries of a manifest, as its author can, who signs it."""
    path = directory / "manifest.json"
    manifest = {**json.loads(path.read_text("utf-8")), **changes}
    manifest["sha256"] = atomic.manifest_sha256(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def replaced(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Return the sound manifest with one value replaced."""
    manifest = json.loads(json.dumps({**SOUND, "versions": {"torch": "2.13.0"}}))
    *way, last = place
    inside: Any = manifest
    for step in way:
        inside = inside[step]
    inside[last] = value
    name = str(place[0])
    return {name: manifest[name]}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "best"
    size = small_tokenizer().source_vocabulary
    save_bundle(path, random_model(1, size, size), small_tokenizer(), **SOUND)
    return path


@pytest.fixture(autouse=True)
def _sound_again(directory: Path) -> Any:
    before = (directory / "manifest.json").read_bytes()
    yield
    (directory / "manifest.json").write_bytes(before)


def refusal(directory: Path, **changes: Any) -> str:
    sign_anew(directory, **changes)
    with pytest.raises(ValueError, match="expected") as caught:
        api.load(directory)
    return str(caught.value)


def test_a_sound_manifest_is_read_and_describes_the_model(directory: Path):
    bundle = load_bundle(directory)
    assert {name: bundle.manifest[name] for name in SOUND} == SOUND
    assert "`train.en`: 11 pairs trained on of 12 read" in write_model_card(bundle, "me/model")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize(
    "value",
    [ESCAPE, HUGE, -1, -HUGE, math.nan, math.inf, -math.inf, "x" * 2000, deep(50), {"a": deep(50)}, [ESCAPE]],
    ids=[
        "escape",
        "huge",
        "minus one",
        "minus huge",
        "nan",
        "inf",
        "minus inf",
        "long",
        "deep list",
        "deep object",
        "list",
    ],
)
def test_a_value_of_a_wrong_kind_is_refused_in_a_sentence_that_names_file_field_value_and_expectation(
    directory: Path, place: tuple[str | int, ...], value: Any
):
    fits = place in [("dev", "dev_loss"), ("dev", "bleu")] and value == -1
    if fits or (place == ("dev", "dev_loss") and isinstance(value, float)):
        sign_anew(directory, **replaced(place, value))
        load_bundle(directory)
        return
    said = refusal(directory, **replaced(place, value))
    field = next(str(step) for step in reversed(place) if isinstance(step, str))
    assert said.startswith(f"{directory / 'manifest.json'}: {place[0]}")
    assert field in said
    assert " is " in said
    assert said.isprintable()
    assert len(said) < len(str(directory)) + 400


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reference": {"lines": 2, "beam": 65}}, "reference.beam is 65, expected a whole number from 1 to 64"),
        ({"reference": {"beam": 0}}, "reference.beam is 0, expected a whole number from 1 to 64"),
        ({"reference": {"beam": True}}, "reference.beam is True, expected a whole number from 1 to 64"),
        ({"reference": {"beam": 4.0}}, "reference.beam is 4.0, expected a whole number from 1 to 64"),
        ({"languages": {"source": "en\n\x1b[31m", "target": "es"}}, "languages.source is 'en\\n\\x1b[31m', expected"),
        ({"languages": {"source": "Spanish", "target": "es"}}, "languages.source is 'Spanish', expected the code of"),
        ({"languages": ["en", "es"]}, "languages is a list of 2, expected an object with source and target, or null"),
        ({"languages": {"source": "en"}}, "languages is an object of 1, expected an object with source and target"),
        ({"directions": [["en", "de"], ["en"]]}, "directions[1] is a list of 1, expected the codes of two languages"),
        ({"directions": "en-de"}, "directions is 'en-de', expected a list of at most 10,000 directions"),
        ({"directions": [["en", "a/b"]]}, "directions[0] is a list of 2, expected the codes of two languages"),
        ({"pairs": 3}, "pairs is 3, expected a list of at most 10,000 corpora"),
        ({"pairs": [{"corpus": "a`\u2028b", "read": 1, "trained_on": 1}]}, "pairs.corpus is 'a`\\u2028b', expected"),
        ({"pairs": [{"corpus": "a\u202eb", "read": 1, "trained_on": 1}]}, "pairs.corpus is 'a\\u202eb', expected"),
        ({"pairs": [{"corpus": "a", "read": 1.5, "trained_on": 1}]}, "pairs[0].read is 1.5, expected a whole number"),
        ({"pairs": [{"corpus": "a", "read": 1}]}, "expected an object with corpus and read and trained_on"),
        ({"sources": deep(30)}, "sources is a list of 1, expected at most 20 lists and objects in one another"),
        ({"other": {"a": {"b\x07": 1}}}, "other.a is 'b\\x07', expected a text of at most 1,000 characters"),
        ({"\x1b[2J": 1}, "the name of an entry is '\\x1b[2J', expected"),
        ({"x" * 5000: 1}, "the name of an entry is 'xxx"),
        ({"dev": {"directions": {"en-de": 3}}}, "dev.directions.en-de is 3, expected an object of scores"),
        ({"dev": {"directions": {"en-de": {"bleu": "9"}}}}, "dev.directions.en-de.bleu is '9', expected a finite"),
        ({"dev": {"directions": []}}, "dev.directions is a list of 0, expected an object"),
    ],
)  # fmt: skip
def test_the_sentence_names_what_came_and_what_is_expected(directory: Path, changes: dict[str, Any], said: str):
    assert said in refusal(directory, **changes)


def test_a_manifest_as_deep_as_json_can_be_is_refused_in_one_sentence(directory: Path):
    manifest = json.loads((directory / "manifest.json").read_text("utf-8"))
    for levels in (100, 500, 900, 960, 980, 990, 1000, 5000, 100_000):
        nested = "[" * levels + "]" * levels
        text = json.dumps({**manifest, "more": 0}).replace('"more": 0', f'"more": {nested}')
        (directory / "manifest.json").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"manifest\.json"):
            api.load(directory)


def test_every_form_of_a_code_that_training_takes_from_files_is_a_code_that_a_manifest_may_hold():
    for text in ("en", "spa", "pt-BR", "zh_Hans", "en-GB", "sr-Latn-RS", "de-1996", "x-en", "e1", "english"):
        assert not is_code(text) or is_language_code(text)


def test_entries_of_a_later_version_pass(directory: Path):
    sign_anew(directory, later={"licence": "CC0", "numbers": [1, 2.5, None, True]})
    assert load_bundle(directory).manifest["later"]["licence"] == "CC0"


def test_a_name_that_training_writes_can_be_read_again(tmp_path: Path):
    name = manifest_checks.make_showable("two\nlines\x1b[31m" + "\u202e" * 2000)
    assert manifest_checks.is_showable(name)
    size = small_tokenizer().source_vocabulary
    pairs = [{"corpus": name, "read": 1, "trained_on": 1}]
    save_bundle(tmp_path / "m", random_model(1, size, size), small_tokenizer(), pairs=pairs)
    assert load_bundle(tmp_path / "m").manifest["pairs"] == pairs


def test_spellings_of_a_training_text_may_be_any_characters(directory: Path):
    sources = {"sources": 1, "sentences": [1], "continuations": {}, "without_letters": 0, "capitals": 0}
    sources |= {"title_case": 0, "marks": {}, "spellings": {"\u2028": 3, "\u00a0": 1}}
    sign_anew(directory, sources=sources)
    api.load(directory)
