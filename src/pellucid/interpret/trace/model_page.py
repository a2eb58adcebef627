"""Packs a model for a browser that translates and traces by itself: as one HTML file, or for the page of a server."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.data.source_profile import SourceProfile
from pellucid.data.tokenizer import ListedPieces, PieceModel, Tokenizer
from pellucid.decode.translator import Translator
from pellucid.interpret.trace.facts import model_facts
from pellucid.interpret.trace.session import Trace, TraceOrigin, trace_sentence
from pellucid.model import Transformer
from pellucid.model.known_parts import unknown_parts
from pellucid.store.directory import Bundle

# Last names of the tensors in the map of the network,
# which is what the page shows when it is opened.
_DRAWN_FIRST = ("embedding", "positions", "allowed", "pattern", "memory", "states")


def save_model_page(
    trace: Trace,
    path: str | Path,
    precision: str = "float16",
    examples: Sequence[str] = (),
    languages: tuple[str | None, str | None] | None = None,
) -> int:
    """Write the page with the model of a trace inside and return its bytes.

    The trace's sentence is shown first. The file holds what the map of that sentence draws,
    computed here with the weights rounded as in the file. Raises ValueError for a model with parts
    of its own, which the page has no formula of, for a precision other than float16, float32 and
    int8, and for a weight that the precision has no room for.
    """
    from pellucid.interpret.page.model_file import MODEL_PRECISIONS, save_model_html

    if precision not in MODEL_PRECISIONS:
        raise ValueError(
            f"precision is {precision!r:.20}, a page keeps weights as {', '.join(MODEL_PRECISIONS)}"
        )

    origin, part = trace.origin, trace.facts.part

    # A file is opened with a text, and the first part of this text is shown.
    line = part.line if part is not None and part.segment == 1 else trace.sentence
    header = {
        **_model_header(origin.bundle, origin.translator, precision),
        "examples": list(dict.fromkeys([line, *examples])),
        "languages": languages if languages and all(languages) else None,
    }

    # As the page does: with rounded weights, in the search that it opens with, tags read as text.
    model, tokenizer = with_rounded_weights(origin.bundle.model, precision), origin.bundle.tokenizer
    translator = Translator(
        model,
        tokenizer,
        trained=origin.translator.lengths.longest_trained,
        profile=origin.translator.profile,
        target_language=origin.translator.reader.target_language,
    )
    translator.calibration = origin.translator.calibration
    translator.context = origin.translator.context
    rounded = Bundle(model, tokenizer, origin.bundle.manifest, origin.bundle.directory)
    first = trace_sentence(TraceOrigin(translator, rounded, markup="text"), line)
    manifest = first.manifest()
    run = {**manifest["run"], "device": f"{manifest['run']['device']}, weights in {precision}"}
    answers: dict[str, Any] = {}
    for name, answer in trace.model_answers().items():
        if name in ("words", "heads"):
            answers[name] = answer
    return save_model_html(
        Path(path),
        header,
        {**manifest, **answers, "run": run},
        {name: first.tensor(name) for name in first if name.rpartition(".")[2] in _DRAWN_FIRST},
        _list_parameters(origin.bundle.model),
        _text_files(origin.bundle.tokenizer, origin.translator.profile),
    )


def pack_model(
    bundle: Bundle,
    translator: Translator,
    most_bytes: int,
) -> tuple[bytes, Iterator[bytes]]:
    """Return a model in float32 for the engine of a page: a line of JSON, and the bytes that it lists, one by one.

    The line holds the header of the model, the hashes of its files, the script of the engine, and
    the bytes of each block. Raises ValueError, with the reason, for a model that the page cannot
    compute, for one that was never saved, which nothing tells from another, and for more than
    `most_bytes` of weights.
    """
    from pellucid.interpret.page.html_file import format_size, read_script
    from pellucid.interpret.page.model_file import ENGINE_PATH

    facts, files = model_facts(bundle), _text_files(bundle.tokenizer, translator.profile)
    if (size := 4 * facts.parameters) > most_bytes:
        raise ValueError(
            f"its weights have {format_size(size)}, and a browser gets {format_size(most_bytes)} at most"
        )

    if not facts.sha256:
        raise ValueError("the model was never saved")

    sizes = {}
    for name, parameter in bundle.model.named_parameters():
        sizes[f"parameter {name}"] = 4 * parameter.numel()
    for name, data in files.items():
        sizes[f"tokenizer {name}"] = len(data)
    head = {
        "header": _model_header(bundle, translator, "float32"),
        "sha256": facts.sha256,
        "tokenizer_sha256": facts.tokenizer_sha256,
        "engine": read_script(ENGINE_PATH),
        "sizes": sizes,
    }
    parameters = _list_parameters(bundle.model)
    weights = (values.astype("<f4", copy=False).tobytes() for _, values in parameters)
    return json.dumps(head).encode() + b"\n", chain(weights, files.values())


def _model_header(bundle: Bundle, translator: Translator, precision: str) -> dict[str, Any]:
    """Return `ModelHeader` of web/src/engine/package.ts.

    Raises ValueError for a model that the page cannot compute.
    """
    tokenizer, lengths = bundle.tokenizer, translator.lengths
    if problems := unknown_parts(bundle.model):
        raise ValueError(f"the page computes only parts of Pellucid's own: {'; '.join(problems)}")
    if tokenizer.languages:
        raise ValueError("the page does not tell a multilingual model which language to write")
    for side in (tokenizer.source, tokenizer.target):
        for reason in _tokenizer_problems(side):
            raise ValueError(f"the page cannot cut text as this tokenizer does: it {reason}")

    names = ("kind", "lowercase", "source_end")
    return {
        "format": "pellucid-model",
        "version": 1,
        "config": asdict(bundle.model.config),
        "precision": precision,
        "tokenizer": {name: getattr(tokenizer.config, name) for name in names},
        "limits": {"trained": lengths.longest_trained, "longest": lengths.longest},
        "forbidden": list(translator.bounds.forbidden),
        "profile": None if translator.profile is None else translator.profile.as_json(),
        "target_language": translator.reader.target_language,
    }


def with_rounded_weights(model: Transformer, precision: str) -> Transformer:
    """Return a copy of a model with the weights of a page in float16, float32 or int8, computing in float32.

    Raises ValueError for a weight that the precision has no room for.
    """
    from pellucid.interpret.page.model_file import round_weights

    rounded = deepcopy(model).float().cpu()
    for name, parameter in rounded.named_parameters():
        values = parameter.detach().cpu().numpy()
        parameter.data = torch.from_numpy(round_weights(name, values, precision))
    return rounded


def _list_parameters(model: Transformer) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights of a model by name, each once."""
    for name, parameter in model.named_parameters():
        yield name, parameter.detach().float().cpu().numpy()


# Kind of a piece that SentencePiece cuts out of a text
# before anything else, in the protocol buffer of its models.
_USER_DEFINED = 4


def _tokenizer_problems(pieces: PieceModel) -> list[str]:
    """Return the reasons why the page cannot cut text as a SentencePiece model does, in words that follow "it"."""
    # Fields by the numbers of sentencepiece_model.proto:
    # 1 pieces (3 kind), 2 settings of the training.
    kinds = set()
    settings: dict[int, int | bytes] = {}
    for number, value in _read_fields(pieces.serialized_model_proto()):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            kinds.add(dict(_read_fields(value)).get(3, 1))
        elif number == 2 and not settings:
            settings = dict(_read_fields(value))

    problems = []
    if _USER_DEFINED in kinds:
        problems.append("has symbols that a user defined")
    if settings.get(24):
        problems.append("marks the ends of words instead of their beginnings")
    return problems


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


def _text_files(tokenizer: Tokenizer, profile: SourceProfile | None) -> Mapping[str, bytes]:
    """Return the files of a tokenizer by side, and the words of a profile.

    A tokenizer that serves both sides stands under "source" alone.
    """
    files: dict[str, bytes] = {}
    sides = {"source": tokenizer.source, "target": tokenizer.target}
    for side, pieces in list(sides.items())[: 1 if tokenizer.target is tokenizer.source else 2]:
        files[side] = pieces.serialized_model_proto()
        if isinstance(pieces, ListedPieces):
            files[f"{side}.pieces"] = json.dumps(pieces.names).encode()

    if profile is not None and profile.words:
        files["words"] = "\n".join(profile.words).encode()
    return files
