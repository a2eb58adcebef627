import sys
from pathlib import Path

import pytest

from benchmarks import soak
from pellucid import bundle
from tests.decode.models import LINES, random_model, small_tokenizer


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no 127.0.0.2")
def test_a_server_that_is_asked_too_much_loses_nothing_and_is_wrong_nowhere(tmp_path: Path):
    vocabulary = small_tokenizer().source_vocabulary
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 31}
    bundle.save_bundle(tmp_path / "best", random_model(5, vocabulary, vocabulary, **sizes), small_tokenizer(), step=0)
    few = ("--engine", "torch", "--arrival", "1", "--waiting", "32", "--each", "8")
    found = soak.run_soak(str(tmp_path / "best"), LINES, 4.0, *few)
    assert found.tally.problems == []
    assert found.status == 0
    assert found.tally.total("answered") > 20
    assert found.tally.total("told to come again (429)") + found.tally.total("told to come again (503)") > 20
    assert found.tally.total("refused", "a hostile request")
    assert found.tally.total("given up (408)")
    assert f"| answered, each as alone | {found.tally.total('answered'):,} |" in soak.page_lines(
        soak.parse_options([]), found
    )
