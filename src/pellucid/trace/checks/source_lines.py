"""Source lines where tensors are shown to the watcher, found by running a model and asking who called."""

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
    """A line of the installed source; its file is named from the package down."""

    file: str
    line: int
    text: str

    def as_json(self) -> dict[str, Any]:
        """Return the line as `SourceLine` of web/src/types.ts."""
        return asdict(self)


def source_line_of(name: str, config: ModelConfig) -> SourceLine:
    """Return the line where a model of this config shows a tensor; KeyError for a name that it does not have.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> code = source_line_of("decoder.3.cross.pattern", config)
    >>> code.file, code.text
    ('model/attention.py', 'pattern = watch("pattern", masked_softmax(scores, watch("allowed", allowed)))')
    """
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    layer = re.match(r"(encoder|decoder)\.(\d+)\.", name)
    if layer is not None and int(layer[2]) >= layers[layer[1]]:
        raise KeyError(f"{name!r}: the {layer[1]} has {layers[layer[1]]} layers, the first is number 0")
    # Sizes and depth do not decide which lines run, so the smallest model of the same structure is asked; configs that
    # differ in sizes alone then share one entry of the cache.
    sizes = {"source_vocabulary": 5, "target_vocabulary": 5, "d_model": 2, "d_ff": 1, "heads": 1}
    depth = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 2}
    lines = source_lines(replace(config, **sizes, **depth))
    return lines[re.sub(r"^(encoder|decoder)\.\d+\.", r"\1.0.", name)]


@cache
def source_lines(config: ModelConfig) -> Mapping[str, SourceLine]:
    """Return the source line of every tensor that a model of this config shows, by running one."""
    model = model_without_storage(config, tensors=config.encoder_layers + config.decoder_layers).eval()
    # Drawing weights would change the state of torch's random generator; no number is looked at here.
    for name, weight in list(model.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(torch.zeros(weight.shape)))
    pieces = torch.ones(1, 2, dtype=torch.int64)
    listener = CallerRecorder()
    with torch.inference_mode():
        model(pieces, pieces, watch=listener)
    return MappingProxyType(listener.lines)  # read-only, since the cache hands it to every caller


class CallerRecorder:
    """A watcher that notes the line from which it was called."""

    seeing = True

    def __init__(self, prefix: str = "", lines: dict[str, SourceLine] | None = None):
        self.prefix = prefix
        self.lines: dict[str, SourceLine] = {} if lines is None else lines

    def __call__(self, name: str, value: Tensor) -> Tensor:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        # One frame back is the line of the model that said watch(name, value).
        file, line = frame.f_back.f_code.co_filename, frame.f_back.f_lineno
        path = Path(file).resolve().relative_to(PACKAGE).as_posix()
        self.lines[self.prefix + name] = SourceLine(path, line, linecache.getline(file, line).strip())
        return value

    def within(self, part: str) -> "CallerRecorder":
        return CallerRecorder(f"{self.prefix}{part}.", self.lines)
