"""Soak test of the server: a short one under overload."""

import sys
from pathlib import Path

import pytest

from benchmarks import soak
from pellucid.store.directory import save_bundle
from tests.decode.models import LINES, random_model, small_tokenizer


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no 127.0.0.2")
def test_an_overloaded_server_loses_no_request_and_gives_no_wrong_answer(tmp_path: Path):
    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31}
    models = [str(tmp_path / name) for name in ("best", "last")]
    for seed, model in enumerate(models):
        save_bundle(Path(model), random_model(5 + seed, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
    options = ("--engine", "torch", "--set", "arrival=1", "--set", "waiting=32", "--set", "each=8")
    result = soak.run_soak(models, LINES, 4.0, *options)
    assert result.tally.problems == []
    assert result.status == 0
    assert result.tally.total("answered") > 20
    assert result.tally.total("told to come again (429)") + result.tally.total("told to come again (503)") > 20
    assert result.tally.total("refused", "a hostile request")
    assert result.tally.total("given up (408)")
    assert f"| answered, with the same answer as alone | {result.tally.total('answered'):,} |" in soak.page_lines(
        soak.parse_options([]), result
    )
