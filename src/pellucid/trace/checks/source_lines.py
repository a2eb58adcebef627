"""The line of the installed source where a tensor is shown: found by running the model and asking who called."""

import inspect
import linecache
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.model import ModelConfig
from pellucid.weights import model_without_storage

PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SourceLine:
    """A line of the installed source, its file named from the package down."""

    file: str
    line: int
    text: str

    def as_json(self) -> dict[str, Any]:
        """As `SourceLine` of web/src/types.ts."""
        return asdict(self)


def source_line_of(name: str, config: ModelConfig) -> SourceLine:
    """Where a model of this config shows the tensor of this name; KeyError for a name it has not.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> code = source_line_of("decoder.3.cross.pattern", config)
    >>> code.file, code.text
    ('model/attention.py', 'pattern = watch("pattern", masked_softmax(scores, watch("allowed", allowed)))')
    """
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    layer = re.match(r"(encoder|decoder)\.(\d+)\.", name)
    if layer is not None and int(layer[2]) >= layers[layer[1]]:
        raise KeyError(f"{name!r}: the {layer[1]} has {layers[layer[1]]} layers, the first is number 0")
    sizes = {"source_vocabulary": 5, "target_vocabulary": 5, "d_model": 2, "d_ff": 1, "heads": 1, "fewer_heads": ""}
    depth = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 2}
    lines = source_lines(replace(config, **sizes, **depth))
    return lines[re.sub(r"^(encoder|decoder)\.\d+\.", r"\1.0.", name)]


@cache
def source_lines(config: ModelConfig) -> Mapping[str, SourceLine]:
    """The line of each name that a model of this config says, as a run of it tells them.

    Its weights are zeros: nothing is drawn, and no number is looked at.
    """
    model = model_without_storage(config, tensors=config.encoder_layers + config.decoder_layers).eval()
    for name, weight in list(model.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(torch.zeros(weight.shape)))
    pieces = torch.ones(1, 2, dtype=torch.int64)
    listener = CallerRecorder()
    with torch.inference_mode():
        model(pieces, pieces, watch=listener)
    return MappingProxyType(listener.lines)


class CallerRecorder:
    """A watcher that notes from which line it was called."""

    seeing = True

    def __init__(self, prefix: str = "", heard: dict[str, SourceLine] | None = None):
        self.prefix = prefix
        self.lines: dict[str, SourceLine] = {} if heard is None else heard

    def __call__(self, name: str, value: Tensor) -> Tensor:
        here = inspect.currentframe()
        assert here is not None and here.f_back is not None
        file, line = here.f_back.f_code.co_filename, here.f_back.f_lineno
        place = Path(file).resolve().relative_to(PACKAGE).as_posix()
        self.lines[self.prefix + name] = SourceLine(place, line, linecache.getline(file, line).strip())
        return value

    def within(self, part: str) -> "CallerRecorder":
        return CallerRecorder(f"{self.prefix}{part}.", self.lines)
