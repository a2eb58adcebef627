"""bfloat16 on a processor that only emulates it: used where it is asked for, with a warning."""

import pytest
import torch

import pellucid
from pellucid import cpu
from pellucid.decode import packed_model

WARNING = "precision = bfloat16, which this processor does not have built in: torch emulates it, and float32 is faster"


@pytest.fixture(autouse=True)
def emulated_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cpu, packed_model):
        monkeypatch.setattr(module, "has_native_bfloat16", lambda device: False)


def test_a_model_warns_where_it_is_loaded(model, recwarn):
    pellucid.load(model, "float32")
    assert [*recwarn] == []
    loaded = pellucid.load(model, "bfloat16")
    assert [(str(warning.message), warning.filename) for warning in recwarn] == [(WARNING, __file__)]
    assert loaded.translator.torch.dtype == torch.bfloat16
    [copied] = loaded.translator.torch.copy_models()
    assert not any(isinstance(weight, packed_model.PackedWeight) for weight in vars(copied.output_embedding).values())


@pytest.mark.filterwarnings("always")
def test_a_command_warns_in_one_line(call, model, tmp_path):
    (tmp_path / "a.en").write_text("Yes.\n", encoding="utf-8")
    result = call("translate", model, "a.en", "--precision", "bfloat16", "--set", "max_extra=2")
    assert result.exit_code == 0
    assert result.stderr == f"pellucid: {WARNING}\n"
    assert call("translate", model, "a.en", "--set", "max_extra=2").stderr == ""
