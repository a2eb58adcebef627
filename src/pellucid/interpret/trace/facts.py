"""Facts of a trace beside its tensors: pieces, decoding steps, the search tree, and where everything came from.

The field names are the same as in the page's manifest.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import torch
from pydantic import FailFast

from pellucid.data.context import count_context
from pellucid.data.text.word_pieces import is_byte_piece, word_piece_ranges
from pellucid.data.tokenizer import EOS, UNK, Tokenizer
from pellucid.decode.request import SearchConfig
from pellucid.decode.usability import Grade
from pellucid.interpret.trace.edits import EditSpec
from pellucid.model import Transformer
from pellucid.store.atomic import installed_version
from pellucid.store.directory import WEIGHTS, Bundle, trained_context

# Every class here is written out as JSON: renaming a field breaks the page.

SettingValue = bool | int | float | str  # a value in a table of settings


@dataclass(frozen=True)
class TraceSide:
    """One language of a trace.

    `words` has for each piece the index of its word in `text` (words are separated by white space),
    None for special tokens. `unknown` marks the pieces that are UNK, or bytes of a character that
    no piece covers. The first `context` pieces of a source belong to the sentence before it and to
    BOS, which stands between both in `text`, too.
    """

    text: str
    normalised: str
    pieces: list[str]
    ids: list[int]
    words: list[int | None]
    unknown: list[bool]
    context: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class DecoderInputs:
    """Pieces that the decoder read: BOS, then the pieces written, without the last one."""

    pieces: list[str]
    ids: list[int]


@dataclass(frozen=True)
class Candidate:
    """A piece that could be written next, with its logit as captured; natural logarithms."""

    id: int
    piece: str
    logit: float
    log_prob: float
    prob: float


@dataclass(frozen=True)
class DecodingStep:
    """One step of decoding: the piece read, the piece written, and its alternatives.

    `others` is the probability of all pieces outside `top`; `rank` is the rank of the chosen piece
    among all, 1 first.
    """

    step: int
    input: str
    chosen: Candidate
    rank: int
    top: list[Candidate]
    others: float
    others_count: int
    entropy: float


@dataclass(frozen=True)
class TreeNode:
    """One candidate of a search.

    `total` is the sum of the log-probabilities from the root, `score` is `total` divided by the
    length penalty, `rank` is the candidate's rank within its step, 1 first.
    """

    id: int
    parent: int | None
    step: int
    piece: str
    piece_id: int
    log_prob: float
    total: float
    score: float
    rank: int
    fate: Literal["kept", "pruned", "finished"]
    best: bool


@dataclass(frozen=True)
class SearchTree:
    """All candidates of a search: at each step there were `candidates`, and it kept `width` of them."""

    width: int
    length_penalty: float
    formula: str
    candidates: int
    nodes: Annotated[list[TreeNode], FailFast()]


@dataclass(frozen=True)
class _ModelFacts:
    """The model that was traced."""

    name: str
    config: dict[str, SettingValue]
    parameters: int
    sha256: str
    tokenizer_sha256: str
    context: int = 0  # sentences before another that the sources of training had


@dataclass(frozen=True)
class _RunFacts:
    """Machine, programs and search settings that made the numbers of a trace."""

    dtype: str
    device: str
    pellucid: str
    torch: str
    search: dict[str, SettingValue]
    seconds: float


@dataclass(frozen=True)
class LinePart:
    """Number `segment`, 1 first, of the `segments` in which a `line` is translated, each by itself.

    `context` is the sentence before the line, if any.
    """

    line: str
    segments: list[str]
    segment: int
    context: str = ""


@dataclass(frozen=True)
class TraceFacts:
    """All facts of a trace. `id` is a short hash of model, sentence, settings and edits, equal for equal traces.

    `source` is as the model read it, `target` as it wrote it; with `forced` the target was given,
    not searched for. `stop` says why it ends: after EOS, or at the largest number of pieces.
    `log_prob` is the whole translation's, a natural logarithm, and `score` is it over the length
    penalty. `tree` is None where no search could be observed. `text` is the whole line that a user
    gets, with tags and white space where they stood; `translation_notes` are about the translation,
    `notes` are these and the remarks about the trace; `context` is the sentence before, if any.
    `part` says which part of its line `sentence` is, where the line is translated in several.
    `alarms` say what went wrong, and `grade` whether a person can use the translation of a search.
    """

    id: str
    sentence: str
    model: _ModelFacts
    run: _RunFacts
    source: TraceSide
    target: TraceSide
    inputs: DecoderInputs
    forced: bool
    stop: Literal["eos", "length"]
    log_prob: float
    score: float
    notes: list[str]
    edits: list[EditSpec]
    steps: Annotated[list[DecodingStep], FailFast()]
    tree: SearchTree | None
    text: str
    piece_log_probs: list[float]
    translation_notes: list[str]
    context: str = ""
    part: LinePart | None = None
    alarms: list[str] = field(default_factory=list)
    grade: Grade | None = None


_DRAWING_SETTINGS = ("temperature", "top_k", "top_p", "seed")


def make_side(
    pieces: Sequence[str],
    ids: list[int],
    text: str,
    normalised: str,
    spelled: Sequence[str] | None = None,
) -> TraceSide:
    """Return one side of a trace, each piece with its word.

    A piece that spans two words belongs to the first. Pieces that are
    `spelled` otherwise in the text are given so, too.
    """
    last = len(ids) - (ids[-1:] == [EOS])
    word_of_piece: list[int | None] = [None] * len(ids)

    # In reverse, so that the first of two words that share a piece is written last.
    ranges = list(enumerate(word_piece_ranges((spelled or pieces)[:last], text)))
    for word, piece_range in reversed(ranges):
        for piece in piece_range:
            word_of_piece[piece] = word

    unknown = []
    for i, piece in zip(ids, pieces, strict=True):
        unknown.append(i == UNK or is_byte_piece(piece))
    return TraceSide(
        text,
        normalised,
        list(pieces),
        ids,
        word_of_piece,
        unknown,
        context=count_context(ids),
    )


def model_facts(bundle: Bundle) -> _ModelFacts:
    """Return the facts of the model.

    Its name is the end of its directory, its hashes belong to the files loaded.
    """
    files = bundle.manifest.get("files", {})
    parameter_count = sum(parameter.numel() for parameter in bundle.model.parameters())
    tokenizer_hashes = []
    for name in Tokenizer.files(bundle.tokenizer.config):
        tokenizer_hashes.append(files.get(name, {}).get("sha256", ""))
    return _ModelFacts(
        "/".join(bundle.directory.resolve().parts[-2:]),
        asdict(bundle.model.config),
        parameter_count,
        files.get(WEIGHTS, {}).get("sha256", ""),
        " ".join(tokenizer_hashes),
        trained_context(bundle.manifest),
    )


def run_facts(
    model: Transformer, config: SearchConfig, given: bool, prefix: Sequence[str], seconds: float
) -> _RunFacts:
    """Return what ran the model, and how the translation was found: given, or searched for from the pieces `prefix`."""
    weight = model.output_embedding.weight
    method = config.method
    if given:
        method = "given"
    elif method == "beam" and config.beam == 1:
        method = "greedy"

    search: dict[str, Any] = {
        "method": method,
        "beam": config.beam,
        "length_penalty": config.length_penalty,
        "max_extra": config.max_extra,
        "prefix": " ".join(prefix),
    }
    if config.method == "sample":
        search |= {name: getattr(config, name) for name in _DRAWING_SETTINGS}

    return _RunFacts(
        dtype=str(weight.dtype).removeprefix("torch."),
        device=str(weight.device),
        pellucid=installed_version("pellucid") or "not installed",
        torch=torch.__version__,
        search=search,
        seconds=seconds,
    )
