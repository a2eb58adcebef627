"""Detection of native bfloat16."""

import torch

from pellucid.cpu import has_native_bfloat16

CPU = torch.device("cpu")


def test_native_bfloat16_takes_the_processor_and_the_library(monkeypatch):
    capable = torch.cpu._is_avx512_bf16_supported()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert has_native_bfloat16(CPU) == capable
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert has_native_bfloat16(CPU)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not has_native_bfloat16(CPU)
