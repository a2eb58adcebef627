"""Exports the model behind a trace as one HTML file in which it translates and traces any sentence."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch

from pellucid.data.tokenizer import ListedPieces, PieceModel, Tokenizer
from pellucid.decode.translate import Translator
from pellucid.model import Transformer
from pellucid.model.known_parts import unknown_parts
from pellucid.store.directory import Bundle
from pellucid.trace.session import Trace, TraceOrigin, trace_sentence

_DRAWN_FIRST = ("embedding", "positions", "allowed", "pattern", "memory", "states")
"""Last names of the tensors in the map of the network, which is what the page shows when it is opened."""


def save_model_page(
    trace: Trace,
    path: str | Path,
    precision: str = "float16",
    examples: Sequence[str] = (),
    languages: tuple[str | None, str | None] | None = None,
) -> int:
    """Write the page with the model of a trace inside and return its bytes; the trace's sentence is shown first.

    The file holds what the map of that sentence draws, computed here with the weights rounded as in the file.
    Raises ValueError for a model with parts of its own, which the page has no formula of, for a precision that is none
    of float16, float32 and int8, and for a weight that the precision has no room for.
    """
    from pellucid.page.model_file import MODEL_PRECISIONS, save_model_html

    if precision not in MODEL_PRECISIONS:
        raise ValueError(f"precision is {precision!r:.20}, a page keeps weights as {', '.join(MODEL_PRECISIONS)}")
    origin = trace.origin
    model, tokenizer, lengths = origin.bundle.model, origin.bundle.tokenizer, origin.translator.lengths
    if problems := unknown_parts(model):
        raise ValueError(f"the page computes only parts of Pellucid's own: {'; '.join(problems)}")
    if reasons := [reason for side in (tokenizer.source, tokenizer.target) for reason in _tokenizer_problems(side)]:
        raise ValueError(f"the page cannot cut text as this tokenizer does: it {reasons[0]}")
    header = {
        "format": "pellucid-model",
        "version": 1,
        "config": asdict(model.config),
        "precision": precision,
        "tokenizer": {"kind": tokenizer.config.kind, "lowercase": tokenizer.config.lowercase},
        "limits": {"trained": lengths.longest_trained, "longest": lengths.longest},
        "forbidden": list(origin.translator.bounds.forbidden),
        "examples": list(dict.fromkeys([trace.sentence, *examples])),
        "languages": languages if languages and all(languages) else None,
    }
    first = _trace_rounded(origin, trace.sentence, precision)
    manifest = first.manifest()
    run = {**manifest["run"], "device": f"{manifest['run']['device']}, weights in {precision}"}
    answers = {name: answer for name, answer in trace.model_answers().items() if name in ("words", "heads")}
    return save_model_html(
        Path(path),
        header,
        {**manifest, **answers, "run": run},
        {name: first.tensor(name) for name in first if name.rpartition(".")[2] in _DRAWN_FIRST},
        ((name, weight.detach().float().cpu().numpy()) for name, weight in model.named_parameters()),
        _tokenizer_files(tokenizer),
    )


def _trace_rounded(origin: TraceOrigin, sentence: str, precision: str) -> Trace:
    """Trace a sentence as the page does: with rounded weights, in the search that it opens with, tags read as text."""
    bundle = origin.bundle
    model = with_rounded_weights(bundle.model, precision)
    translator = Translator(model, bundle.tokenizer, trained=origin.translator.lengths.longest_trained)
    translator.calibration = origin.translator.calibration
    rounded = Bundle(model, bundle.tokenizer, bundle.manifest, bundle.directory)
    return trace_sentence(TraceOrigin(translator, rounded, markup="text"), sentence)


def with_rounded_weights(model: Transformer, precision: str) -> Transformer:
    """Return a copy of a model with the weights of a page in float16, float32 or int8, computing in float32.

    Raises ValueError for a weight that the precision has no room for.
    """
    from pellucid.page.model_file import round_weights

    rounded = deepcopy(model).float().cpu()
    for name, parameter in rounded.named_parameters():
        parameter.data = torch.from_numpy(round_weights(name, parameter.detach().cpu().numpy(), precision))
    return rounded


_USER_DEFINED = 4
"""Kind of a piece that SentencePiece cuts out of a text before anything else, in the protocol buffer of its models."""


def _tokenizer_problems(pieces: PieceModel) -> list[str]:
    """Return the reasons why the page cannot cut text as a SentencePiece model does, in words that follow "it"."""
    # Fields by the numbers of sentencepiece_model.proto: 1 pieces (3 kind), 2 settings of the training.
    fields = list(_read_fields(pieces.serialized_model_proto()))
    kinds = {
        dict(_read_fields(value)).get(3, 1) for number, value in fields if number == 1 and isinstance(value, bytes)
    }
    settings = dict(
        _read_fields(next((value for number, value in fields if number == 2 and isinstance(value, bytes)), b""))
    )
    return [
        *(["has symbols that a user defined"] if _USER_DEFINED in kinds else []),
        *(["marks the ends of words instead of their beginnings"] if settings.get(24) else []),
    ]


def _read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a protocol buffer; floats as their bytes."""
    place = 0

    def read_number() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = message[place]
            place += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    while place < len(message):
        number, kind = divmod(read_number(), 8)
        if kind == 0:
            yield number, read_number()
            continue
        size = read_number() if kind == 2 else 4 if kind == 5 else 8
        yield number, message[place : place + size]
        place += size


def _tokenizer_files(tokenizer: Tokenizer) -> Mapping[str, bytes]:
    """Return the files of a tokenizer by side; one that serves both sides stands under "source" alone."""
    files: dict[str, bytes] = {}
    sides = {"source": tokenizer.source, "target": tokenizer.target}
    for side, pieces in list(sides.items())[: 1 if tokenizer.target is tokenizer.source else 2]:
        files[side] = pieces.serialized_model_proto()
        if isinstance(pieces, ListedPieces):
            files[f"{side}.pieces"] = json.dumps(pieces.names).encode()
    return files
