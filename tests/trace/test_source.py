"""The source line shown for a tensor is the line of the installed package that shows it to `watch`."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.interpret.trace.manifest import source_line_of
from pellucid.model.glossary import glossary
from tests.model.models import every_option, small_config

PACKAGE = Path(pellucid.__file__).parent


@cache
def watch_calls(file: str) -> dict[tuple[str, int], str]:
    """The class or function around each call of `watch` in a file, by the name it gives and its line."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    return {
        (call.args[0].value, call.lineno): top.name
        for top in tree.body
        if isinstance(top, ast.ClassDef | ast.FunctionDef)
        for call in ast.walk(top)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "watch"
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


@every_option
def test_every_tensor_has_the_line_that_names_it(options):
    config = small_config(**options)
    for row in glossary(config):
        code = source_line_of(row.name, config)
        text = (PACKAGE / code.file).read_text(encoding="utf-8").splitlines()[code.line - 1]
        last = row.name.rpartition(".")[2]
        assert text.strip() == code.text, row.name
        assert f'watch("{last}"' in code.text, row.name
        assert (last, code.line) in watch_calls(code.file), row.name


@pytest.mark.parametrize(
    ("options", "name", "owner"),
    [
        ({}, "encoder.0.self.q", "SelfAttention"),
        ({}, "decoder.1.cross.q", "CrossAttention"),
        ({}, "decoder.1.cross.v", "CrossAttention"),
        ({}, "decoder.1.cross.output", "Attention"),
        ({}, "decoder.1.ffn.output", "FeedForward"),
        ({}, "decoder.1.self.pattern", "attend"),
        ({}, "encoder.positions", "Sinusoidal"),
        ({"positions": "learned"}, "decoder.positions", "Learned"),
        ({}, "logits", "Transformer"),
    ],
)
def test_the_line_stands_in_the_class_that_computes_it(options, name, owner):
    code = source_line_of(name, small_config(**options))
    assert watch_calls(code.file)[name.rpartition(".")[2], code.line] == owner


def test_a_norm_before_and_a_norm_after_are_two_lines():
    before, after = (source_line_of("decoder.0.ffn_residual.norm", small_config(norm=norm)) for norm in ("pre", "post"))
    assert before.line != after.line
    assert "sublayer(watch" in before.text
    assert "sublayer(x)" in after.text


def test_every_call_of_watch_is_the_line_of_some_tensor():
    """All configurations together use every call of `watch` in the model."""
    shown_lines = set()
    for norm in ("pre", "post"):
        for positions in ("sinusoidal", "learned"):
            config = small_config(norm=norm, positions=positions)
            shown_lines |= {
                (code.file, code.line) for code in (source_line_of(row.name, config) for row in glossary(config))
            }
    files = [path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "model").glob("*.py")]
    assert shown_lines == {(file, line) for file in files for _, line in watch_calls(file)}


def test_finding_a_line_draws_no_random_numbers():
    state = torch.get_rng_state()
    source_line_of("logits", small_config(d_ff=19, activation="swiglu", norm="post", tie="none"))
    assert torch.equal(torch.get_rng_state(), state)


def test_unknown_layers_and_names_are_refused():
    with pytest.raises(KeyError, match=re.escape("'decoder.2.self.q': the decoder has 2 layers")):
        source_line_of("decoder.2.self.q", small_config())
    with pytest.raises(KeyError, match=r"decoder\.0\.self\.nothing"):
        source_line_of("decoder.0.self.nothing", small_config())


def test_the_statements_above_a_line_are_those_of_its_block_and_hold_the_projection_and_the_division():
    config = small_config()
    for row in glossary(config):
        code = source_line_of(row.name, config)
        lines = (PACKAGE / code.file).read_text(encoding="utf-8").splitlines()[: code.line - 1]
        statements = [line.strip() for line in lines if not line.lstrip().startswith("#")]
        assert len(code.before) <= 2
        assert list(code.before) == statements[len(statements) - len(code.before) :], row.name
    assert "self.qkv(x)" in source_line_of("encoder.0.self.q", config).before[0]
    assert source_line_of("encoder.0.self.scores", config).before[1].endswith("** 0.5")
    assert source_line_of("encoder.0.self.products", config).before == ()
