import json
import shutil
import sys
import tempfile

import ctranslate2
import pytest
import torch

from pellucid.api import load
from pellucid.cli.export import translate_converted
from pellucid.cli.files import LINE_BREAKERS
from pellucid.evaluate.scores import corpus_scores
from pellucid.model import Transformer
from pellucid.store.directory import load_bundle, save_bundle
from tests.decode.models import model_that_writes, random_model, small_tokenizer

SOURCES = ["The ball is blue.", "", "Where is the house?", "Yes.", "The dog drank the water.", "The black cat is blue."]
REFERENCES = ["La bola es azul.", "", "¿Dónde está la casa?", "Sí.", "El perro bebió el agua.", "El gato es azul."]
DEV = ("--dev-source", "dev.en", "--dev-target", "dev.es")
SHORTLIST = ("--shortlist-source", "dev.en", "--shortlist-target", "dev.es")


@pytest.fixture(autouse=True)
def dev_files(tmp_path, monkeypatch):
    """Write dev sentences into the working directory; assert that no temporary file is left at the end."""
    write(tmp_path / "dev.en", SOURCES)
    write(tmp_path / "dev.es", REFERENCES)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.fixture(scope="module")
def constant_model(tmp_path_factory):
    """Save a model that int8 cannot change: it writes one piece, whatever it reads."""
    size = small_tokenizer().source_vocabulary
    model = model_that_writes(small_tokenizer().target_pieces(range(size)).index("a"), size, size)
    with torch.no_grad():  # nothing else reaches the output, where rounding would decide between equals
        model.get_parameter("decoder_norm.weight").zero_()
    return save_model(tmp_path_factory, model)


@pytest.fixture(scope="module")
def outlier_model(tmp_path_factory):
    """Save a model that int8 ruins in its decoder.1.ffn."""
    size = small_tokenizer().source_vocabulary
    model = random_model(2, size, size, d_model=32, d_ff=64, max_positions=401)
    return save_model(tmp_path_factory, with_an_outlier(model, "decoder.1.ffn"))


def with_an_outlier(model: Transformer, ffn: str) -> Transformer:
    """Set a huge weight in every row of the feed-forward's outer matrix; what it is multiplied with is always zero.

    In float32 the model computes what it computed before. In int8 a row's steps are as wide as its largest weight
    asks for, and all the others become zero.
    """
    with torch.no_grad():
        model.get_parameter(f"{ffn}.inner.weight")[0] = 0.0
        model.get_parameter(f"{ffn}.inner.bias")[0] = -1.0  # the activation makes it zero
        model.get_parameter(f"{ffn}.outer.weight")[:, 0] = 1e4
    return model


def save_model(tmp_path_factory, model):
    directory = tmp_path_factory.mktemp("models") / "best"
    save_bundle(directory, model, small_tokenizer())
    return directory


def write(path, lines):
    path.write_bytes("".join(line.translate(LINE_BREAKERS) + "\n" for line in lines).encode())


def file_names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_float32_is_written_and_listed(call, model, tmp_path):
    result = call("export", model, "out", "--to", "ctranslate2")
    assert (result.exit_code, result.stderr) == (0, "")
    size = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert result.stdout.startswith(f"out: {size:,} bytes (README.md ")
    assert ctranslate2.contains_model(str(tmp_path / "out"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    origin = {"from": "best", "sha256": load_bundle(model).manifest["sha256"]}
    assert manifest["exported"] == {"format": "ctranslate2", **origin}
    assert manifest["precision"] == "float32"
    assert "measured" not in manifest


def test_marian_is_written_and_listed(call, model, tmp_path):
    result = call("export", model, "out", "--to", "marian")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("out: ")
    assert {"config.json", "source.spm", "model.safetensors"} <= set(file_names(tmp_path / "out"))


@pytest.mark.parametrize(
    ("to", "advice"), [("ctranslate2", "this directory with --exported out"), ("marian", "pellucid import out OUT")]
)
def test_an_export_given_as_a_model_is_refused_as_an_export(call, refuse, model, to, advice):
    assert call("export", model, "out", "--to", to).exit_code == 0
    for command in (["translate", "out"], ["serve", "out", "--port", 0], ["explain", "out", "Yes."]):
        sentence = refuse(*command)
        assert sentence.startswith("pellucid: out is an export to ")
        assert advice in sentence


def test_int8_that_passes_is_written_with_its_numbers(call, constant_model, tmp_path):
    result = call("export", constant_model, "out", "--to", "ctranslate2", "--precision", "int8", *DEV)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "6 dev sentences, beam 4:\n  float32 " in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if "chrF" in line]
    assert [row[0] for row in rows] == ["float32", "int8"]
    assert rows[0][1:] == rows[1][1:]
    numbers = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["measured"]["int8"]
    assert numbers["chrf_full"] == numbers["chrf_small"] == pytest.approx(float(rows[0][2].strip(",")), abs=0.005)
    assert numbers["sentences"] == 6


def test_the_conversion_that_is_measured_is_the_one_that_is_written(call, model, tmp_path, monkeypatch):
    monkeypatch.setattr("pellucid.evaluate.scores.LARGEST_DROP", 100.0)
    monkeypatch.setattr("pellucid.evaluate.scores.repetition_rate", lambda texts: 0.0)
    measured = []

    def translate_and_keep(*arguments, **options):
        measured.append(translate_converted(*arguments, **options))
        return measured[-1]

    monkeypatch.setattr("pellucid.cli.export.translate_converted", translate_and_keep)
    result = call("export", model, "out", "--to", "ctranslate2", "--precision", "int8", *DEV, *SHORTLIST)
    assert result.exit_code == 0, result.stderr
    original = load_bundle(model)
    assert measured[0] != measured[1] != measured[2]
    assert translate_converted(original, tmp_path / "out", SOURCES) == measured[1]
    assert translate_converted(original, tmp_path / "out", SOURCES, shortlist=True) == measured[2]


def test_int8_that_ruins_a_layer_is_refused(refuse, outlier_model, tmp_path):
    # What the model itself writes is right; so chrF is about 100, and can only fall.
    write(tmp_path / "dev.es", [translation.text for translation in load(outlier_model).translate(SOURCES)])
    sentence = refuse("export", outlier_model, "out", "--to", "ctranslate2", "--precision", "int8", *DEV)
    assert sentence.startswith("pellucid: refused; int8: chrF falls by ")
    assert "use --precision bfloat16 or float32, or use --no-gate" in sentence
    assert file_names(tmp_path) == ["dev.en", "dev.es", "temporary"]


def test_a_refused_export_leaves_the_old_one(call, outlier_model, tmp_path):
    call("export", outlier_model, "out", "--to", "ctranslate2")
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    write(tmp_path / "dev.es", [translation.text for translation in load(outlier_model).translate(SOURCES)])
    result = call("export", outlier_model, "out", "--to", "ctranslate2", "--precision", "int8", *DEV)
    assert result.exit_code == 2
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


def test_bfloat16_can_be_measured_too(call, constant_model):
    result = call("export", constant_model, "out", "--to", "ctranslate2", "--precision", "bfloat16", *DEV)
    assert result.exit_code == 0, result.stderr
    assert "\n  bfloat16 " in result.stdout


def test_int8_without_a_gate_is_noted_in_the_output_and_in_the_manifest(call, outlier_model, tmp_path):
    result = call("export", outlier_model, "out", "--to", "ctranslate2", "--precision", "int8", "--no-gate")
    assert result.exit_code == 0
    assert result.stdout.startswith("not measured: ")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["measured"] == "no"


def test_a_shortlist_is_measured_and_put_beside_the_model(call, constant_model, tmp_path):
    result = call("export", constant_model, "out", "--to", "ctranslate2", *DEV, *SHORTLIST)
    assert result.exit_code == 0, result.stderr
    assert "shortlist: " in result.stdout
    assert "100.00% of the text in --dev-target" in result.stdout
    assert "\n  float32, shortlist " in result.stdout
    assert "vmap.txt" in file_names(tmp_path / "out")
    unmeasured = call("export", constant_model, "other", "--to", "ctranslate2", *SHORTLIST)
    assert "in --shortlist-target" in unmeasured.stdout
    assert "not measured: " in unmeasured.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--to onnx", "--to is 'onnx', it must be marian, ctranslate2, argos or page"),
        ("--precision int4", "--precision is 'int4', for --to ctranslate2 it must be one of float32, bfloat16, int8"),
        ("--precision int8", "int8 changes a model's translations, so it is measured first: give --dev-source and"),
        ("--precision int8 --dev-source dev.en", "--dev-source and --dev-target belong together"),
        ("--shortlist-target dev.es", "--shortlist-source and --shortlist-target belong together"),
        (" ".join(DEV), "only bfloat16, int8 and a shortlist change translations: there is nothing to measure"),
        ("--no-gate", "only bfloat16, int8 and a shortlist change translations: there is nothing to measure"),
        (f"--precision int8 --no-gate {' '.join(DEV)}", "--no-gate skips the measurement that --dev-source is for"),
        ("--to marian --precision int8 --no-gate", "--to marian does not take --precision, --no-gate"),
        (
            "--to page --precision bfloat16",
            "--precision is 'bfloat16', for --to page it must be one of float16, float32, int8",
        ),
        ("--to page --no-gate", "there is nothing to measure"),
        ("--to page --precision int8", "int8 changes a model's translations, so it is measured first"),
        ("--sentence Yes.", "--to ctranslate2 does not take --sentence"),
        ("--to page", "no dev text stands beside"),
        (f"--to marian {' '.join(SHORTLIST)}", "--to marian does not take --shortlist-source, --shortlist-target"),
        ("--shortlist-source - --shortlist-target -", "only one file can be standard input"),
        ("--shortlist-source nowhere --shortlist-target dev.es", "nowhere: no such file or directory"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(refuse, model, tmp_path, options: str, message: str):
    assert message in refuse("export", model, "out", "--to", "ctranslate2", *options.split())
    assert not (tmp_path / "out").exists()


def test_a_page_is_one_file_with_the_model_and_the_sentences_inside(call, model, tmp_path):
    bundle, named = load_bundle(model), tmp_path / "named"
    save_bundle(named, bundle.model, bundle.tokenizer, languages={"source": "en", "target": "es"})
    result = call("export", named, "out.html", "--to", "page", "--sentence", "The ball is blue.", "--sentence", "<b>")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "out.html").read_text("utf-8")
    assert result.stdout.startswith(f"out.html: {len(text.encode()):,} bytes; open it in a browser")
    assert text.count("data-parameter=") == len(dict(bundle.model.named_parameters()))
    assert '"languages":["en","es"]' in text
    assert '"examples":["The ball is blue.","\\u003cb\\u003e"]' in text
    assert "worker-src blob:" in text
    refused = call("export", model, "nowhere/out.html", "--to", "page", "--sentence", "Yes.")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "nowhere is not a folder" in refused.stderr


@pytest.mark.slow  # so is an export to CTranslate2, in the tests around it
def test_a_page_in_int8_is_measured_first_and_refused_if_it_translates_worse(
    call, refuse, constant_model, outlier_model, tmp_path
):
    page = ("--to", "page", "--sentence", "Yes.", "--precision", "int8")
    result = call("export", constant_model, "out.html", *page, *DEV)
    assert result.exit_code == 0, result.stderr
    assert "  int8 " in result.stdout
    # Its own translations are the references, so that any other translation is worse.
    write(tmp_path / "own.es", [line.text for line in load(outlier_model, engine="torch").translate(SOURCES)])
    sentence = refuse("export", outlier_model, "other.html", *page, *DEV[:3], "own.es")
    assert "use --precision float16 or float32" in sentence
    assert not (tmp_path / "other.html").exists()
    assert call("export", outlier_model, "other.html", *page, "--no-gate").stdout.startswith("not measured: ")


def test_the_format_must_be_named(call, model):
    assert "Missing option '--to'" in call("export", model, "out").stderr


def test_lines_too_long_for_the_model_are_named(refuse, model, tmp_path):
    write(tmp_path / "dev.en", [*SOURCES[:5], "ball " * 50])
    assert "dev.en:6 has " in refuse("export", model, "out", "--to", "ctranslate2", "--precision", "int8", *DEV)


def test_only_an_export_of_the_same_format_is_replaced(call, refuse, model, tmp_path):
    shutil.copytree(model, tmp_path / "trained")
    (tmp_path / "letters").mkdir()
    write(tmp_path / "letters" / "a.txt", ["Dear"])
    assert call("export", model, "marian", "--to", "marian").exit_code == 0
    for out, message in {
        "trained": "trained is not an export to ctranslate2 and is not replaced",
        "letters": "holds other things than a model and is not replaced",
        "marian": "marian is not an export to ctranslate2",
        "dev.en": "dev.en is a file",
    }.items():
        assert message in refuse("export", model, out, "--to", "ctranslate2")
    assert load(tmp_path / "trained").translate(["Yes."])
    for _ in range(2):
        assert call("export", model, "out", "--to", "ctranslate2").exit_code == 0
    assert "out is not an export to marian" in call("export", model, "out", "--to", "marian").stderr


def test_without_ctranslate2_the_command_says_how_to_get_it(refuse, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert "pip install 'pellucid[ctranslate2]'" in refuse("export", model, "out", "--to", "ctranslate2")
    assert not (tmp_path / "out").exists()


def test_evaluate_scores_the_exported_model(call, outlier_model, tmp_path):
    assert (
        call("export", outlier_model, "out", "--to", "ctranslate2", "--precision", "int8", "--no-gate").exit_code == 0
    )
    texts = [
        translation.text
        for translation in load(outlier_model, engine="ctranslate2", exported=tmp_path / "out").translate(SOURCES)
    ]
    scores = {}
    for name, options in {"float32": [], "int8": ["--exported", "out"]}.items():
        result = call("evaluate", outlier_model, "--source", "dev.en", "--reference", "dev.es", "--json", *options)
        assert result.exit_code == 0, result.stderr
        scores[name] = json.loads(result.stdout)
        scores[name].pop("alarms")
    assert scores["int8"] == corpus_scores(texts, [REFERENCES])
    assert scores["int8"] != scores["float32"]
