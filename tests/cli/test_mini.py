"""`pellucid mini` writes one file that trains and translates by itself, and computes what the package computes."""

import ast
import errno
import io
import json
import os
import random
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.api import load
from pellucid.demo import mini
from pellucid.model import ModelConfig, Transformer
from pellucid.store.directory import load_bundle, save_bundle
from pellucid.training.loss import smoothed_cross_entropy
from tests.decode.models import LINES, small_tokenizer
from tests.tolerances import relative_rounding

FILE = Path(mini.__file__)
SIZES = {"d_model": 14, "d_ff": 22, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "max_positions": 97}
FORMS = [("pre", "all"), ("post", "all"), ("post", "decoder"), ("pre", "none")]


def write_model(folder: Path, end_bonus: float = 0.0, **choices: Any) -> Path:
    """Write a model directory with random weights, biases included, and so much added to the logit of EOS."""
    vocabulary = small_tokenizer().source_vocabulary
    torch.manual_seed(5)
    model = Transformer(ModelConfig(vocabulary, vocabulary, **{**SIZES, **choices})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        output = model.output_embedding.weight.mul_(3.0)
        last_norm = model.decoder[-1].ffn_residual.norm if model.config.norm == "post" else model.decoder_norm
        if end_bonus:
            last_norm.bias.add_(end_bonus * output[3] / output[3].square().sum())  # pyright: ignore
    folder.mkdir(exist_ok=True)
    save_bundle(folder / "model", model, small_tokenizer(), step=0)
    return folder / "model"


def run_file(file: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run mini.py as people do who have nothing of Pellucid: from its own folder, without the package's path."""
    command = [sys.executable, "-I", file, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=file.parent, check=False)


@pytest.mark.parametrize(("norm", "tie"), FORMS)
def test_it_computes_the_logits_of_the_package(tmp_path, norm, tie):
    directory = write_model(tmp_path, norm=norm, tie=tie)
    bundle = load_bundle(directory)
    model, source, target = mini.load(str(directory))
    assert (source.pieces, target.pieces) == ([*bundle.tokenizer.source_names], [*bundle.tokenizer.target_names])
    sources = mini.pad(bundle.tokenizer.encode_source(LINES))
    targets = mini.pad([[2, *ids[:-1]] for ids in bundle.tokenizer.encode_target(LINES[::-1])])
    with torch.no_grad():
        ours, theirs = bundle.model(sources, targets), model(sources, targets)
    spread = ours.max() - ours.min()
    assert spread > 5
    assert (ours - theirs)[targets != 0].abs().max() <= relative_rounding() * spread


def test_its_searches_find_the_translations_of_the_package(tmp_path):
    texts, stops = set(), set()
    for number, (norm, tie) in enumerate(FORMS[::2]):
        directory = write_model(tmp_path / str(number), end_bonus=9.0, norm=norm, tie=tie)
        package = load(directory)
        model, source, target = mini.load(str(directory))
        for width in (1, 2, 5):
            method: Any = {"method": "greedy"} if width == 1 else {"beam": width}
            expected = package.translate(LINES, max_extra=7, repetition="keep", empty="keep", **method)
            for line, translation in zip(LINES, expected, strict=True):
                ids = source.encode(line)
                longest = len(ids) - 1 + 7
                tokens = mini.beam_search(model, ids, longest, width)
                pieces = [target.pieces[token] for token in tokens]
                assert pieces + ["</s>"] * (translation.stop == "eos") == list(translation.pieces)
                assert width > 1 or tokens == mini.greedy_search(model, ids, longest)
                texts.add(tuple(tokens))
                stops.add((translation.stop, width, norm))
    assert len(texts) > 8
    assert len(stops) > 6  # both stops, with narrow and wide beams


def test_its_tokenizer_cuts_as_sentencepiece_does(tmp_path):
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path)
    own = mini.Tokenizer(mini.read_sentencepiece(tmp_path / "tokenizer.model"))
    generator = random.Random(3)
    characters = "".join(LINES) + "   ñß漢🙂\t<>"
    lines = ["", *LINES, *("".join(generator.choices(characters, k=generator.randrange(40))) for _ in range(300))]
    expected = tokenizer.encode_source(lines)
    assert [own.encode(line) for line in lines] == expected
    assert [own.decode(ids) for ids in expected] == [tokenizer.decode_source(ids) for ids in expected]


def test_its_tokenizer_learns_the_commonest_pieces_first():
    # ▁l, lo and ow stand in all five words; ▁l comes first and leaves ow whole, and two of the words share ▁lowe.
    characters = sorted("▁lowerst")
    lines = ["low lower lowest", "low low"]
    assert mini.learn_pieces(lines, size=400)[260:] == ["▁l", "ow", "▁low", "▁lowe", *characters]
    assert mini.learn_pieces(lines, size=270)[260:] == ["▁l", "ow", *characters]
    tokenizer = mini.Tokenizer(mini.learn_pieces(LINES, size=400))
    assert [tokenizer.decode(tokenizer.encode(line)) for line in [*LINES, "日本 €"]] == [*LINES, "日本 €"]
    assert len(tokenizer.encode(LINES[0])) < len(LINES[0])


def test_its_loss_is_that_of_the_package():
    torch.manual_seed(1)
    logits, targets = torch.randn(3, 5, 11), torch.randint(1, 11, (3, 5))
    targets[1, 3:] = 0
    real = targets != 0
    expected = smoothed_cross_entropy(logits[real], targets[real], 0.1) / real.sum()
    torch.testing.assert_close(mini.smoothed_loss(logits, targets), expected)


@pytest.mark.parametrize("norm", [pytest.param("pre", marks=pytest.mark.slow), "post"])
def test_it_learns_to_copy(norm, capsys):
    torch.manual_seed(1)
    random.seed(1)
    sentences = [[random.randrange(15, 28) for _ in range(random.randrange(2, 6))] + [3] for _ in range(400)]
    config = mini.Config(
        28, 28, d_model=32, d_ff=64, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0, norm=norm
    )
    model = mini.Transformer(config)
    last = mini.train(model, [(ids, ids) for ids in sentences], steps=400, warmup=100, batch=32)
    first = float(capsys.readouterr().err.splitlines()[0].split()[-1])
    assert last < 0.4 * first
    copied = sum(mini.greedy_search(model, ids, 9) == ids[:-1] for ids in sentences[:50])
    assert copied >= 45


def test_the_file_trains_and_translates_by_itself(call, tmp_path, monkeypatch, capsys):
    assert call("mini", "own.py").output == "own.py\n"
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    for path, lines in ((source, LINES), (target, LINES[::-1])):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["train", source, target, "--steps", 20, "--vocabulary", 300, "--d-model", 16, "--out", tmp_path / "m"]
    trained = run_file(tmp_path / "own.py", *words)
    assert (trained.returncode, trained.stdout) == (0, ""), trained.stderr
    losses = [float(line.split()[-1]) for line in trained.stderr.splitlines()]
    assert losses[-1] < losses[0]
    monkeypatch.setattr(sys, "stdin", io.StringIO("The ball.\n\nYes.\n"))
    monkeypatch.setattr(sys, "argv", ["own.py", "translate", str(tmp_path / "m"), "--beam", "2"])
    runpy.run_path(str(tmp_path / "own.py"), run_name="__main__")
    translated = capsys.readouterr().out
    assert translated.count("\n") == 3
    model, tokenizer, _ = mini.load(str(tmp_path / "m"))
    ids = tokenizer.encode("Yes.")
    [*_, last] = translated.split("\n")[:3]
    assert last == tokenizer.decode(mini.beam_search(model, ids, len(ids) + 49, 2))


def write_tiny_model(path: Path) -> None:
    pieces = [*mini.RESERVED, *"abc"]
    mini.save(
        str(path), mini.Transformer(mini.Config(len(pieces), len(pieces), d_model=6, d_ff=8)), mini.Tokenizer(pieces)
    )


def test_a_link_goes_on_pointing_and_a_fifo_gets_the_model(tmp_path):
    torch.manual_seed(5)
    write_tiny_model(tmp_path / "plain")
    expected = (tmp_path / "plain").read_bytes()
    for name, target in (("to_file", "old"), ("to_nothing", "new")):
        (tmp_path / "old").write_bytes(b"old")
        (tmp_path / name).symlink_to(target)
        torch.manual_seed(5)
        write_tiny_model(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == expected
    os.mkfifo(tmp_path / "fifo")
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit((tmp_path / "fifo").read_bytes)
        torch.manual_seed(5)
        write_tiny_model(tmp_path / "fifo")
        assert received.result(timeout=60) == expected
    assert (tmp_path / "fifo").is_fifo()
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "old", "new", "to_file", "to_nothing", "fifo"}


def test_a_full_disk_leaves_the_model_that_stood_there(tmp_path, monkeypatch):
    write_tiny_model(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def write_half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match=r"model could not be written: No space left on device; what stood there is as"):
        write_tiny_model(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("out", [".", "nowhere/mini.safetensors"])
def test_a_place_that_no_model_can_be_written_to_is_refused_before_training(out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("one\n", encoding="utf-8")
    monkeypatch.setattr(mini, "train", lambda *arguments: pytest.fail("it trained"))
    monkeypatch.setattr(sys, "argv", ["mini.py", "train", "text", "text", "--out", out])
    with pytest.raises(SystemExit):
        mini.main()
    assert f"{out} cannot be written: it is a folder, or in none that exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"positions": "rotary", "d_model": 12}, "positions 'rotary'"),
        ({"norm": "rms", "activation": "swiglu"}, "norm 'rms', activation 'swiglu'"),
        ({"output_bias": True}, "output_bias True"),
    ],
)
def test_a_model_of_another_kind_is_refused_in_one_sentence(tmp_path, choices, reason):
    directory = write_model(tmp_path, **choices)
    with pytest.raises(ValueError, match="cannot be loaded") as error:
        mini.load(str(directory))
    assert str(error.value) == (
        f"{directory} cannot be loaded as a model: it has {reason}, which mini.py does not know; "
        "use `pellucid translate`"
    )


def test_a_damaged_model_and_other_files_are_refused_in_one_sentence(tmp_path, capsys, monkeypatch):
    def read_refusal(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["mini.py", *map(str, words)])
        with pytest.raises(SystemExit, match=r"^2$"):
            mini.main()
        output, messages = capsys.readouterr()
        assert output == ""
        return messages

    directory = write_model(tmp_path)
    weights = (directory / "model.safetensors").read_bytes()
    texts = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    for name, content in (
        ("model.safetensors", weights[:-40]),
        ("model.safetensors", weights[:40]),
        ("model.safetensors", b""),
        ("config.json", b"{}"),
        ("config.json", json.dumps({**texts, "model": {**texts["model"], "encoder_layers": 1}}).encode()),
        ("config.json", json.dumps({**texts, "model": {**texts["model"], "d_ff": 23}}).encode()),
        ("tokenizer.model", b"\n\x03abc"),
    ):
        before = (directory / name).read_bytes()
        (directory / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"model cannot be loaded as a model: "):
            mini.load(str(directory))
        (directory / name).write_bytes(before)
    mini.load(str(directory))
    other = tmp_path / "text.txt"
    other.write_text("no model\n", encoding="utf-8")
    assert f"error: {other} cannot be loaded as a model: " in read_refusal("translate", other)
    assert "line n must translate line n, but the files have 2 and " in read_refusal("train", other, FILE)


def test_it_imports_only_torch_and_the_standard_library():
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    packages = {name.split(".")[0] for name in imported}
    assert packages - sys.stdlib_module_names == {"torch"}
    assert "pickle" not in packages


def test_it_stays_near_three_hundred_lines_of_code():
    text = FILE.read_text(encoding="utf-8")
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docstrings = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and ast.get_docstring(node)
        for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = [
        line
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#") and number not in docstrings
    ]
    assert len(code) < 320


def test_the_command_copies_the_file_and_replaces_none(call, refuse, tmp_path):
    result = call("mini")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "mini.py\n", "")
    assert (tmp_path / "mini.py").read_bytes() == FILE.read_bytes()
    (tmp_path / "mini.py").write_text("mine", encoding="utf-8")
    for words, phrase in (
        ((), "mini.py is already there"),
        ((tmp_path,), f"is a directory; name the Python file to write, such as {tmp_path / 'mini.py'}"),
        (("nowhere/mini.py",), "nowhere/mini.py: "),
    ):
        assert phrase in refuse("mini", *words)
    assert (tmp_path / "mini.py").read_text(encoding="utf-8") == "mine"
