"""The HTML file of a trace holds its numbers bit by bit, runs no text, and is refused where it cannot be written."""

import hashlib
import json
import re
from base64 import b64encode

import numpy as np
import pytest

from pellucid.api import Model
from pellucid.decode.translator import Translator
from pellucid.interpret.page.html_file import (
    KEEP_CHOICES,
    choose_keep,
    estimate_size,
    html_block,
    pack_numbers,
    page_html,
    save_html,
    script_json,
    script_text,
    trace_page,
)
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import small_tokenizer
from tests.page.traces import HOSTILE, PARAMETERS, SCRIPT, SHAPES, HandMadeTrace, Read, built_script

__all__ = ["built_script"]

pytestmark = pytest.mark.usefixtures("built_script")


@pytest.mark.parametrize("keep", ["float32", "weights"])
def test_every_block_gives_back_the_numbers_of_the_trace(keep: str):
    trace = HandMadeTrace()
    arrays = Read(trace_page(trace, keep)).arrays("tensor")
    assert list(arrays) == list(SHAPES)
    for name, values in arrays.items():
        assert np.array_equal(values, trace.tensor(name)), name


def test_only_a_file_with_weights_holds_parameters():
    trace = HandMadeTrace()
    assert all(not Read(trace_page(trace, keep)).blocks("parameter") for keep in KEEP_CHOICES if keep != "weights")
    page = Read(trace_page(trace, "weights"))
    arrays = page.arrays("parameter")
    assert list(arrays) == list(PARAMETERS)
    assert all(np.array_equal(values, trace.parameter(name)) for name, values in arrays.items())
    assert all(row["captured"] for row in page.manifest["parameters"])


def test_a_file_of_maps_keeps_patterns_and_marks_the_rest_as_not_captured():
    page = Read(trace_page(HandMadeTrace(), "maps"))
    maps = [name for name in SHAPES if name.endswith((".pattern", ".allowed"))]
    assert list(page.arrays("tensor")) == maps
    for row in page.manifest["tensors"]:
        assert row["captured"] == (row["name"] in maps)
        assert ("least" in row) == ("largest" in row) == ("sha256" in row) == row["captured"]


@pytest.mark.parametrize("keep", KEEP_CHOICES)
def test_the_hash_of_each_block_stands_in_its_row(keep: str):
    page = Read(trace_page(HandMadeTrace(), keep))
    for kind in ("tensor", "parameter"):
        rows = {row["name"]: row for row in page.manifest[f"{kind}s"] if row["captured"]}
        blocks = page.blocks(kind)
        assert {name: hashlib.sha256(data).hexdigest() for name, data in blocks.items()} == {
            name: row["sha256"] for name, row in rows.items()
        }


def test_a_file_of_float16_says_so_and_is_rounded_to_it():
    trace = HandMadeTrace()
    page = Read(trace_page(trace, "float16"))
    manifest = page.manifest
    assert manifest["run"]["capture"] == "float16"
    assert len(manifest["notes"]) == 2
    assert "float16" in manifest["notes"][-1]
    for name, values in page.arrays("tensor").items():
        [row] = [row for row in manifest["tensors"] if row["name"] == name]
        exact = trace.tensor(name)
        assert row["dtype"] == ("bool" if name.endswith(".allowed") else "float16")
        assert np.abs(values - exact).max() <= 2**-11 * np.abs(exact).max()
        if row["dtype"] == "float16":
            assert (row["least"], row["largest"]) == (values.min(), values.max())
            assert not np.array_equal(values, exact)


@pytest.mark.parametrize("keep", ["maps", "float32", "weights"])
def test_no_other_file_says_float16(keep: str):
    manifest = Read(trace_page(HandMadeTrace(), keep)).manifest
    assert manifest["run"]["capture"] == "float32"
    assert manifest["notes"] == ["a note"]


def test_a_number_beyond_float16_is_refused_by_name():
    trace = HandMadeTrace()
    trace.tensors["logits"][1, 2] = -70000.0
    with pytest.raises(ValueError, match=r"logits holds -70000, and float16 ends at 65504; keep float32"):
        trace_page(trace, "float16")
    trace.tensors["logits"][1, 2] = np.inf
    assert np.isinf(Read(trace_page(trace, "float16")).arrays("tensor")["logits"][1, 2])


def test_tensors_that_were_not_captured_stay_so():
    page = Read(trace_page(HandMadeTrace(missing=("logits",)), "float32"))
    assert "logits" not in page.blocks("tensor")
    assert not page.manifest["tensors"][-1]["captured"]


def test_a_file_says_how_many_bytes_of_numbers_it_holds():
    page = Read(trace_page(HandMadeTrace(), "weights"))
    assert page.manifest["run"]["bytes"] == sum(
        len(data) for kind in ("tensor", "parameter") for data in page.blocks(kind).values()
    )


def test_hostile_text_is_only_text():
    trace = HandMadeTrace()
    page = trace_page(trace)
    parsed = Read(page)
    elements = {"html", "head", "meta", "link", "title", "style", "body", "div", "noscript", "p", "script"}
    assert set(parsed.tags) == elements
    assert parsed.title.startswith(f"a {HOSTILE} b")
    assert parsed.manifest["source"] == trace.manifest()["source"]
    assert not [name for name, _ in parsed.attributes if name.startswith("on") or name == "src"]
    assert [value for name, value in parsed.attributes if name == "href"] == ["data:,"]
    assert [text for attributes, text in parsed.scripts if "type" not in attributes] == []
    assert "\u2028" not in page.partition('<script type="application/json"')[2]


def test_nothing_runs_but_the_script_of_the_page_and_nothing_is_fetched():
    parsed = Read(trace_page(HandMadeTrace()))
    policy = dict(
        directive.strip().split(" ", 1) for directive in str(parsed.meta["Content-Security-Policy"]).split(";")
    )
    digest = b64encode(hashlib.sha256(parsed.module.encode()).digest()).decode()
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_a_script_that_contains_an_end_tag_is_embedded_whole():
    module = Read(trace_page(HandMadeTrace())).module
    assert module == SCRIPT.replace("</script><!--", r"\x3c/script>\x3c!--")


@pytest.mark.parametrize(
    "value", [HOSTILE, "</SCRIPT>", "\u2028\u2029", "&lt;", '\\"', "犬 año \x00\x1f", "<!--<script>"]
)
def test_escaped_json_is_the_same_json_without_markup(value: str):
    text = script_json({value: [value, 1.5, None, True]})
    assert json.loads(text) == {value: [value, 1.5, None, True]}
    assert not re.search("[<>&\u2028\u2029]", text)


def test_json_has_null_for_nan_and_escapes_lone_surrogates():
    assert script_json([float("nan"), {"a": float("-inf")}, 1e300]) == '[null,{"a":null},1e+300]'
    assert script_json("a\udc80").encode() == b'"a\\udc80"'


@pytest.mark.parametrize("module", ["x='</SCRIPT >'", "a<!--b", "`</script`"])
def test_no_script_ends_early(module: str):
    assert not re.search("</script|<!--", script_text(module), re.IGNORECASE)


def test_a_script_without_end_tags_is_left_as_it_is():
    assert script_text("for(i=0;i<scripts;i++)x<y/z") == "for(i=0;i<scripts;i++)x<y/z"


def test_numbers_are_stored_little_endian_with_the_last_axis_fastest():
    values = np.arange(6, dtype=">f8").reshape(3, 2).T
    parsed = Read(html_block("tensor", 'a"<', pack_numbers("a", values, "float32"), level=1))
    assert parsed.blocks("tensor") == {'a"<': np.array([0, 2, 4, 1, 3, 5], "<f4").tobytes()}


@pytest.mark.parametrize("keep", KEEP_CHOICES)
def test_the_size_is_announced_before_the_file_is_written_and_kept(keep: str, tmp_path):
    path = tmp_path / "out.html"
    messages = []
    trace = HandMadeTrace()
    size = save_html(trace, path, keep, say=lambda words: messages.append((words, path.exists())))
    [(words, exists)] = messages
    assert not exists
    assert re.fullmatch(rf"{re.escape(str(path))} will have at most \d+ kB", words)
    estimate = estimate_size({**trace.manifest(), **trace.answers(), **trace.model_answers()}, keep)
    assert path.stat().st_size == size <= estimate < 1.6 * size
    assert path.read_text(encoding="utf-8") == trace_page(trace, keep)


def test_words_and_claims_are_packed_and_rounded_in_the_file():
    page = Read(trace_page(HandMadeTrace()))
    assert set(page.blocks("answer")) == {"accounts", "verdict", "words", "masking"}
    [words] = page.manifest["words"]
    assert words["near"] == {"4": [{"piece": HOSTILE, "id": 7, "cosine": 0.123457}]}
    assert page.manifest["masking"] == {"kept": [0.0]}
    assert HOSTILE not in page.page


def test_answers_have_six_digits_in_the_file():
    page = trace_page(HandMadeTrace())
    manifest = Read(page).manifest
    account = {"piece": HOSTILE, "logit": 3.14159, "sum": None, "parts": []}
    assert manifest["accounts"] == {"chosen": [account], "against": [None]}
    assert manifest["verdict"] == {"findings": []}


def test_the_same_trace_gives_the_same_bytes():
    assert trace_page(HandMadeTrace(), "weights") == trace_page(HandMadeTrace(), "weights")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("before", encoding="utf-8")
    trace = HandMadeTrace()
    del trace.tensors["encoder.input"]
    trace.row = HandMadeTrace().row
    with pytest.raises(KeyError):
        save_html(trace, path, "float32")
    assert path.read_text(encoding="utf-8") == "before"
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".html"] == ["out.html"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("name", "keep", "words"),
    [
        ("out.html", "everything", 'a file keeps maps, float16, float32 or weights, not "everything"'),
        ("no/out.html", "maps", "no is not a folder"),
        ("", "maps", "it is a folder"),
    ],
)
def test_files_that_cannot_be_written_are_refused(tmp_path, name: str, keep: str, words: str):
    with pytest.raises(ValueError, match=re.escape(words)):
        save_html(HandMadeTrace(), tmp_path / name, keep)


def test_a_file_too_large_for_browsers_is_refused_before_anything_is_read():
    trace = HandMadeTrace()
    trace.tensor = trace.parameter = lambda name: pytest.fail(name)
    manifest = trace.manifest()
    manifest["parameters"][0]["shape"] = [200_000, 1024]
    with pytest.raises(
        ValueError, match=r"1092\.\d MB, browsers open 536\.9 MB at most; keep less: maps, float16, float32"
    ):
        page_html(trace, manifest, "weights")


def test_without_a_built_page_the_message_says_how_to_build_it(built_script):
    built_script.unlink()
    with pytest.raises(ValueError, match=r"the page is not built: .*run `make page`"):
        trace_page(HandMadeTrace())


def test_a_file_is_whole_by_default_and_a_larger_one_says_how_to_have_it_whole(tmp_path, monkeypatch):
    trace, told = HandMadeTrace(), []
    save_html(trace, tmp_path / "small.html", say=told.append)
    assert (tmp_path / "small.html").read_text(encoding="utf-8") == trace_page(trace, "float16") == trace_page(trace)
    assert len(told) == 1
    monkeypatch.setattr("pellucid.interpret.page.html_file._LARGEST_WHOLE", 1000)
    save_html(trace, tmp_path / "large.html", say=told.append)
    assert (tmp_path / "large.html").read_text(encoding="utf-8") == trace_page(trace, "maps") == trace_page(trace)
    assert "keeps the attention maps only; with every number" in told[1]
    assert "--keep float16" in told[1]


def test_numbers_beyond_float16_are_not_kept_by_default():
    manifest = json.loads(json.dumps(HandMadeTrace().manifest()))
    assert choose_keep(manifest) == "float16"
    manifest["tensors"][-1]["largest"] = 70_000.0
    assert choose_keep(manifest) == "maps"


LONGEST_SCRIPT = 400_000
"""Bytes of a script that has about 120 kB when it is compressed, the most that the page may have."""


@pytest.mark.parametrize("size", ["tiny", pytest.param("base", marks=pytest.mark.slow)])
def test_a_file_of_maps_has_at_most_one_megabyte(built_script, tmp_path, size: str):
    built_script.write_text(f"//{'x' * LONGEST_SCRIPT}", encoding="utf-8")
    vocabulary = small_tokenizer().source_vocabulary
    config = ModelConfig(vocabulary, vocabulary, **PRESETS[size])
    save_bundle(tmp_path / "best", Transformer(config).eval(), small_tokenizer(), step=0)
    bundle = load_bundle(tmp_path / "best")
    trace = Model(bundle, Translator(bundle.model, bundle.tokenizer)).trace(
        "The cat is the ball", target="El gato es la."
    )
    assert (len(trace.source.ids), len(trace.target.ids)) == (12, 12)
    assert len(trace_page(trace, "maps").encode()) <= 1_000_000
