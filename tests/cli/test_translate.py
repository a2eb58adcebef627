import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from pellucid.api import load
from pellucid.cli.files import write_lines
from pellucid.cli.translation_lines import translation_lines
from pellucid.decode.translation import Translation
from pellucid.localize.documents.readers import read_document
from pellucid.store.directory import save_bundle
from tests.decode.models import random_model, small_tokenizer
from tests.documents.samples import SAMPLES
from tests.processes import ForkedProcess
from tests.tolerances import approx_log_prob

LINES = ["The ball is blue.", "", "Where is the house?", "Yes.", "  ", "The black cat drank the milk."]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path / "in.txt"


def test_one_line_in_is_one_line_out_in_the_same_order(call, model, file):
    result = call("translate", model, file, "--set", "max_extra=5")
    assert (result.exit_code, result.stderr) == (0, "")
    expected = [translation.text for translation in load(model).translate(LINES, max_extra=5)]
    assert result.stdout.split("\n") == [*(text.replace("\r", " ").replace("\0", " ") for text in expected), ""]
    assert (expected[1], expected[4]) == ("", "  ")
    assert len(set(expected)) == 6


def test_standard_input_gzip_and_a_file_give_the_same_translations(shell, model, file, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    options = ("translate", model, "--set", "max_extra=5", "--beam", 2)
    from_file, from_gzip = shell(*options, file), shell(*options, "in.gz")
    from_input = shell(*options, stdin=file.read_bytes(), as_user=True, PYTHONIOENCODING="ascii")
    assert from_file.returncode == 0
    assert from_file.stdout.count(b"\n") == 6
    assert from_file.stdout == from_gzip.stdout == from_input.stdout
    assert from_file.stderr == from_gzip.stderr == from_input.stderr == b""


def test_json_says_why_each_translation_stopped(call, model, file):
    result = call("translate", model, file, "--json", "--n-best", 3, "--set", "max_extra=5")
    rows = [json.loads(line) for line in result.stdout.removesuffix("\n").split("\n")]
    expected = load(model).translate(LINES, n_best=3, max_extra=5)
    assert [row["stop"] for row in rows] == [translation.stop for translation in expected]
    assert rows[1] == {
        "text": "",
        "score": 0.0,
        "stop": "empty",
        "pieces": [],
        "notes": [],
        "alarms": [],
        "alternatives": [],
    }
    for row, translation in zip(rows, expected, strict=True):
        assert set(row) == {"text", "score", "stop", "pieces", "notes", "alarms", "alternatives"}
        assert (row["text"], row["pieces"]) == (translation.text, translation.pieces)
        scores = [alternative.score for alternative in translation.alternatives]
        assert [item["score"] for item in row["alternatives"]] == approx_log_prob(scores)  # another engine


def test_n_best_lists_look_like_those_of_moses(call, model, file):
    result = call("translate", model, file, "--n-best", 2, "--set", "max_extra=5")
    rows = [line.split(" ||| ") for line in result.stdout.removesuffix("\n").split("\n")]
    assert [int(row[0]) for row in rows] == [0, 0, 1, 2, 2, 3, 3, 4, 5, 5]
    assert rows[2] == ["1", "", "0.000000"]
    assert float(rows[3][2]) >= float(rows[4][2])


def test_nothing_in_a_translation_ends_a_line(capsysbinary):
    text = "a\nb\rc\0d\u2028e\x85f"
    translation = Translation(text, -1.5, -3.0, "eos", ["a"], [-3.0], ["b"])
    write_lines(
        [
            *translation_lines([translation]),
            *translation_lines([translation], n_best=2),
            *translation_lines([translation], json=True),
        ]
    )
    plain, n_best, as_object, remainder = capsysbinary.readouterr().out.decode().split("\n")
    assert plain == "a b c d\u2028e\x85f"
    assert n_best == f"0 ||| {plain} ||| -1.500000"
    assert len(as_object.splitlines()) == 1
    assert json.loads(as_object)["text"] == text
    assert remainder == ""


def test_sampling_depends_on_the_seed_alone(call, model, file):
    options = ("translate", model, file, "--set", "method=sample", "--set", "max_extra=5")
    first, again, other = (call(*options, "--set", f"seed={seed}").stdout for seed in (3, 3, 4))
    assert first == again != other


def test_bfloat16_translates_too(call, model, file):
    result = call("translate", model, file, "--precision", "bfloat16", "--set", "max_extra=5")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 6)
    assert {parameter.dtype for parameter in load(model, "bfloat16").bundle.model.parameters()} == {torch.bfloat16}


def test_a_long_line_is_split_or_refused(call, refuse, model, file):
    file.write_bytes(b"Yes.\n" + b"ball " * 99 + b"\nNo.\n")
    sentence = refuse("translate", model, "in.txt", "--set", "too_long=refuse")
    assert "in.txt: source: this model takes 31 pieces a line, line 2 has" in sentence
    result = call("translate", model, "in.txt", "--json", "--set", "max_extra=2")
    first, second, third = (json.loads(line)["notes"] for line in result.stdout.splitlines())
    assert (first, third) == ([], [])
    assert second[0].startswith("split into ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Yes.\nS\xed.\n", "in.txt:2:2: byte 0xED is not UTF-8"),
        (b"Yes.\nNo.\0\n", "in.txt:2: a NUL byte"),
        ("Yes.".encode("utf-16"), "in.txt:1: the file is UTF-16"),
        (gzip.compress(b"Yes.\n" * 999, mtime=0)[:-9], "in.txt:"),
    ],
)
def test_text_that_cannot_be_read_names_file_and_line(refuse, model, file, content: bytes, message: str):
    file.write_bytes(content)
    sentence = refuse("translate", model, "in.txt")
    assert sentence.startswith(f"pellucid: {message}")


def test_damaged_standard_input_is_refused_by_a_process_of_its_own(shell, model):
    result = shell("translate", model, stdin=b"Yes.\nS\xed.\n")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"-:2:2: byte 0xED is not UTF-8" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "0"], "beam is 0, it must be 1 or more"),
        (["--n-best", "5"], "n_best is 5, it must be from 1 to 4 with method = 'beam'"),
        (["--set", "method=beem"], "method is 'beem', it must be beam, greedy or sample"),
        (
            ["--set", "batch=-1", "--set", "top_p=2"],
            "batch is -1, it must be 0 or more; top_p is 2, it must be above 0",
        ),
        (["--set", "num_beams=2"], "unknown option 'num_beams'; did you mean 'beam'?"),
        (["--precision", "int4"], "precision is 'int4', it must be one of bfloat16, float32, int8"),
        (["--beam", "two"], "Invalid value for '--beam'"),
        (["--bean", "2"], "No such option: --bean"),
    ],
)
def test_options_that_make_no_sense_are_refused(refuse, model, file, options: list[str], message: str):
    assert message in refuse("translate", model, file, *options)


def test_a_missing_file_or_model_is_named(refuse, model, tmp_path):
    cases = {
        (model, "nowhere.txt"): "nowhere.txt: no such file or directory",
        (model, tmp_path): f"{tmp_path}: is a directory",
        ("nowhere", "-"): "nowhere does not exist; a model is a directory such as runs/demo/best",
        (model / "config.json", "-"): "is a file; a model is a directory",
        (tmp_path, "-"): "is not a model directory: manifest.json is missing",
        (model.parent, "-"): f"is a run, not a model; did you mean {model}?",
    }
    for words, message in cases.items():
        assert message in refuse("translate", *words)


def test_a_damaged_model_translates_nothing(shell, model, file, tmp_path):
    shutil.copytree(model, tmp_path / "damaged")
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-5] ^= 1
    (tmp_path / "damaged" / "model.safetensors").write_bytes(weights)
    result = shell("translate", "damaged", file)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"damaged is damaged: model.safetensors was changed after it was written" in result.stderr
    assert b"Traceback" not in result.stderr


def test_an_empty_file_gives_no_line(call, model, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    result = call("translate", model, "empty")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_closed_pipe_is_no_failure(model, tmp_path):
    (tmp_path / "many").write_text("\n" * 300_000, encoding="utf-8")
    command = [sys.executable, "-m", "pellucid", "translate", str(model), "many"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_only_whole_lines_are_printed_before_an_interruption(model):
    words = ("translate", model, "--set", "batch=1", "--engine", "torch")
    process = ForkedProcess(*words, stdin=b"Where is the house?\n" * 9999)
    while not process.out.exists() or process.out.stat().st_size < 99:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, messages = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in messages
    assert output.endswith("\n")
    [text] = {*output.splitlines()}
    assert load(model).translate(["Where is the house?"])[0].text == text


def test_terms_prefixes_and_alignments_reach_the_search(call, model, file, tmp_path):
    (tmp_path / "terms.tsv").write_text("ball\tbola\nhouse\tcasa\n", encoding="utf-8")
    (tmp_path / "prefix.txt").write_text("La\n\n\nSí\n\nEl\n", encoding="utf-8")
    options = ["--terms", "terms.tsv", "--prefix", "prefix.txt", "--alignments", "align.txt"]
    result = call("translate", model, file, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    translations = result.stdout.split("\n")[:-1]
    assert translations[0].startswith("La")
    assert "bola" in translations[0]
    assert "casa" in translations[2].lower()
    assert (translations[3][:2], translations[5][:2]) == ("Sí", "El")
    rows = (tmp_path / "align.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(rows) == len(LINES)
    assert (rows[1], rows[4]) == ("", "")
    for row, source, target in zip(rows, LINES, translations, strict=True):
        for link in row.split():
            i, j = map(int, link.split("-"))
            assert i < len(source.split())
            assert j < len(target.split())


def test_a_line_with_too_many_terms_is_named_and_the_other_lines_are_translated(call, model, tmp_path):
    file, terms = tmp_path / "lines", tmp_path / "terms"
    file.write_text("Yes.\nThe ball.\nYes.\n", encoding="utf-8")
    terms.write_text(f"ball\t{'bola y ' * 9}bola\n", encoding="utf-8")
    result = call("translate", model, str(file), "--terms", str(terms), "--set", "max_extra=3", "--json")
    first, odd, last = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 0
    assert first == last
    assert (odd["text"], odd["stop"], odd["score"]) == ("The ball.", "failed", None)
    assert result.stderr.startswith(f"pellucid: {file}: line 2 is not translated and stays as it is: its 1 terms take ")
    assert result.stderr.count("\n") == 1


def test_a_file_that_holds_no_terms_is_refused_and_nothing_is_written(refuse, model, file, tmp_path):
    (tmp_path / "terms.tsv").write_text("ball bola\n", encoding="utf-8")
    sentence = refuse("translate", model, file, "--terms", "terms.tsv", "--alignments", "align.txt")
    assert "terms.tsv:1 has 1 columns, expected 2" in sentence
    assert not (tmp_path / "align.txt").exists()
    (tmp_path / "short.txt").write_text("La\n", encoding="utf-8")
    assert "short.txt has 1 lines" in refuse("translate", model, file, "--prefix", "short.txt")


def test_models_that_translate_together_need_one_vocabulary(call, refuse, model, file):
    result = call("translate", model, file, "--with", model, "--set", "max_extra=5")
    single = call("translate", model, file, "--engine", "torch", "--set", "max_extra=5")
    assert (result.exit_code, result.stdout) == (0, single.stdout)
    sentence = refuse("translate", model, file, "--with", model, "--engine", "ctranslate2")
    assert "several models translate together with engine = 'torch' only" in sentence


def test_every_engine_gives_the_same_text(call, model, file):
    results = {
        engine: call("translate", model, file, "--engine", engine) for engine in ("torch", "ctranslate2", "auto")
    }
    assert {result.exit_code for result in results.values()} == {0}
    assert len({result.stdout for result in results.values()}) == 1
    assert call("translate", model, file, "--precision", "int8").exit_code == 0
    assert "engine is 'onnx'" in call("translate", model, file, "--engine", "onnx").stderr
    assert "precision is 'int8'" in call("translate", model, file, "--engine", "torch", "--precision", "int8").stderr


@pytest.mark.parametrize("command", ["translate", "score", "evaluate"])
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "device is 'gpu', it must be cpu, cuda, or one of several GPUs such as cuda:1"),
        ("cuda", "device is 'cuda', and torch finds no CUDA device here; leave it out to use the CPU"),
        ("cuda:1", "device is 'cuda:1', and torch finds no CUDA device here"),
    ],
)
def test_a_missing_device_is_refused(refuse, model, file, monkeypatch, command, device, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    files = {"translate": [file], "score": ["--source", file, "--target", file]}
    files["evaluate"] = ["--source", file, "--reference", file]
    sentence = refuse(command, model, *files[command], "--device", device)
    assert message in " ".join(sentence.split())


def test_the_processor_is_a_device_by_name(call, model, file):
    assert call("translate", model, file, "--device", "cpu").stdout == call("translate", model, file).stdout


def test_a_document_is_translated_with_all_else_unchanged(call, model, tmp_path):
    for name, (content, texts) in SAMPLES.items():
        (tmp_path / name).write_bytes(content)
        ended = call(
            "translate", model, name, "--out", f"out-{name}", "--set", "max_extra=5", "--from", "en", "--to", "es"
        )
        assert (ended.exit_code, ended.stdout) == (0, "")
        # An untrained model writes what has alarms, which are summed up.
        assert all(line.startswith(f"pellucid: {name}: ") for line in ended.stderr.splitlines())
        assert ": not translated: " not in ended.stderr  # an account may name kinds that are not translated
        # A file of lines, as a .txt is, has a translation for each line.
        if name == "a.txt":
            assert (tmp_path / "out-a.txt").read_text("utf-8").count("\n") == 4
            continue
        translations = load(model).translate(texts, max_extra=5)
        document = read_document(name, content, ("en", "es"))
        expected = document.write([translation.text for translation in translations], language="es")
        assert (tmp_path / f"out-{name}").read_bytes() == expected
    to_output = call("translate", model, "a.html", "--set", "max_extra=5", "--from", "en", "--to", "es")
    assert to_output.stdout_bytes == (tmp_path / "out-a.html").read_bytes()


def test_a_text_of_a_document_that_cannot_be_translated_stays_and_is_named(call, model, tmp_path):
    (tmp_path / "a.html").write_text("<p>The ball.</p>", encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("ball\t" + "1 " * 80 + "1\n", encoding="utf-8")
    ended = call("translate", model, "a.html", "--terms", "terms.tsv")
    assert (ended.exit_code, ended.stdout) == (0, "<p>The ball.</p>")
    assert "pellucid: a.html: not translated: 'The ball.': its 1 terms take " in ended.stderr


def test_a_document_has_an_account_of_all_its_texts(call, model, tmp_path):
    page = "<p>The ball.</p><p>12</p><p>A cat.</p>"
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    told = call("translate", model, "a.html")
    [line] = [line for line in told.stderr.splitlines() if "translated" in line]
    assert line.endswith("translated; not given to the model: 1 has no letter")

    asked = call("translate", model, "a.html", "--json", "--out", "b.html")
    found = json.loads(asked.stdout)
    account = found["account"]
    assert account["translated"] + account["unchanged"] == 2
    assert (account["failed"], account["kept"]) == (0, {"without letters": 1})
    assert [text["source"] for text in found["texts"]] == ["The ball.", "A cat."]
    assert [chapter["texts"] for chapter in found["chapters"]] == [2]
    assert (tmp_path / "b.html").read_text(encoding="utf-8") == told.stdout
    assert "name a file for the translation" in call("translate", model, "a.html", "--json").stderr


def test_a_document_is_refused_in_one_sentence_before_anything_is_written(refuse, model, tmp_path):
    (tmp_path / "a.docx").write_bytes(b"no zip")
    (tmp_path / "a.tmx").write_bytes(SAMPLES["a.tmx"][0])
    for words, sentence in (
        (["a.docx"], "a.docx is not a document of this format, or damaged"),
        (["a.tmx"], "a translation memory has several languages; name two of them, such as en and es"),
        (["a.tmx", "--from", "en"], "one language is named; name both: --from en --to es"),
        (
            ["a.docx", "--prefix", "a.tmx", "--beam", "4", "--n-best", "2"],
            "a document; --prefix and --n-best: only for a file of lines",
        ),
    ):
        assert sentence in refuse("translate", model, *words, "--out", "out")
        assert not (tmp_path / "out").exists()


def test_document_reads_each_line_with_the_one_before_it_and_needs_a_model_that_learned_so(
    call, refuse, model, tmp_path
):
    vocabulary, sentences = small_tokenizer().source_vocabulary, [*LINES[2:4], "", *LINES[:1]]
    learned = tmp_path / "learned" / "best"
    save_bundle(learned, random_model(3, vocabulary, vocabulary), small_tokenizer(), context=1)
    (tmp_path / "in.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    texts = [translation.text for translation in load(learned).translate_document(sentences, max_extra=5)]
    expected = [text.replace("\r", " ").replace("\0", " ") for text in texts]
    result = call("translate", learned, "in.txt", "--document", "--set", "max_extra=5")
    assert result.stdout.split("\n") == [*expected, ""]
    assert result.stdout != call("translate", learned, "in.txt", "--set", "max_extra=5").stdout
    html = tmp_path / "in.html"
    html.write_text("".join(f"<p>{text}</p>" for text in sentences[:2]), encoding="utf-8")
    with_context = call("translate", learned, html, "--document", "--set", "max_extra=5").stdout
    assert with_context != call("translate", learned, html, "--set", "max_extra=5").stdout
    looked = call("explain", learned, sentences[1], "--context", sentences[0], "--json", "--beam", 1)
    assert json.loads(looked.stdout)["source"]["context"] > 1
    looked = call("inspect", "attention", learned, sentences[1], "--context", sentences[0], "--where", "encoder.0.self")
    assert "<s>" in looked.stdout
    scores = ("--source", "in.txt", "--reference", "in.txt", "--beam", 1, "--json")
    assert call("evaluate", learned, *scores, "--document").stdout != call("evaluate", learned, *scores).stdout
    pair, short = ("--source", "in.txt", "--target", "in.txt"), ("--lines", 0)
    for words in (("score", learned, *pair), ("inspect", "align", learned, *pair)):
        assert call(*words, "--document").stdout != call(*words).stdout
    heads = ("inspect", "heads", learned, *pair, *short, "--curve", "bleu")
    assert call(*heads, "--document").stdout != call(*heads).stdout
    # The model that was trained without reads single lines all the same.
    compared = ("compare", learned, model, *scores[:-2], "1", "--json")
    [both, alone] = [json.loads(call(*compared, *more).stdout)["scores"]["chrf"] for more in (["--document"], [])]
    assert both["a"] != alone["a"]
    assert both["b"] == alone["b"]
    assert "neither side is a model" in call("compare", model, "in.txt", *scores[:4], "--document").stderr
    for words in (
        ("translate", model, "in.txt", "--document"),
        ("evaluate", model, *scores, "--document"),
        ("score", model, *pair, "--document"),
        ("inspect", "align", model, *pair, "--document"),
        ("inspect", "heads", model, *pair, "--document"),
    ):
        assert "was trained on single sentences and reads none before another" in refuse(*words)
    (tmp_path / "c.tsv").write_text("".join(f"Yes {n}.\tNo.\tSí.\n" for n in range(9)), encoding="utf-8")
    assert "trained with the sentence before" in call("improve", learned, "c.tsv", "--out", "out").stderr
