"""What every test stands on: one thread, shapes that are checked, and the corpora where they are at hand."""

import os
import signal
from pathlib import Path

# A job that a script starts in the background ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported, and for the processes the tests start. One thread, because a sum that is split among
# threads is rounded in another order on another machine, and because matrices this small run faster on one.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)

# Every shape in a signature of the model and its loss is checked at every call, while the tests run and only then.
MODEL = Path(__file__).parent.parent / "src" / "pellucid" / "model"
SHAPED = [f"pellucid.model.{path.stem}" for path in MODEL.glob("*.py") if path.stem != "__init__"]
install_import_hook([*SHAPED, "pellucid.train.loss"], "beartype.beartype")


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention takes the formula, whatever is faster here."""
    from pellucid.model import attention

    monkeypatch.setattr(attention, "fused_is_faster", lambda q: False)


@pytest.fixture(params=["fused", "written out"])
def both_attentions(request: pytest.FixtureRequest) -> None:
    """A test runs twice: with the kernel, and with the formula."""
    if request.param == "written out":
        request.getfixturevalue("written_out")


@pytest.fixture(scope="session")
def pellucid_data() -> Path:
    """The folder of test corpora, named by PELLUCID_DATA; tests that need it are skipped where it is absent."""
    folder = os.environ.get("PELLUCID_DATA")
    if not folder:
        pytest.skip("PELLUCID_DATA names no folder of test corpora")
    if not Path(folder).is_dir():
        pytest.fail(f"PELLUCID_DATA is {folder}, which is not a folder")
    return Path(folder)
