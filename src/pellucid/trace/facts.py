"""What a trace knows beside its tensors: pieces, steps of decoding, the tree of a search, where it all came from.

The names are those of the page's manifest, and what stands here is what is saved.
"""

from dataclasses import dataclass
from typing import Literal

from pellucid.trace.edits import EditSpec

SettingValue = bool | int | float | str
"""What may stand in a table of settings."""


@dataclass(frozen=True)
class TraceSide:
    """One language of a trace.

    `words` has for each piece the number of its word in `text` (words are what white space separates), None for marks.
    `unknown` says which pieces are the unknown mark, or bytes of a character that no piece covers.
    """

    text: str
    normalised: str
    pieces: list[str]
    ids: list[int]
    words: list[int | None]
    unknown: list[bool]


@dataclass(frozen=True)
class DecoderInputs:
    """What the decoder read: the start mark, then what was written, without its last piece."""

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
    """One step of decoding: the piece read, the one written, and what else could have been.

    `others` is the probability of all the pieces that are not in `top`, `rank` that of the chosen piece among all.
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
    """One candidate of a search. `total` is the sum of the log-probabilities from the root, `score` is it divided by
    the length penalty, `rank` its place among the candidates of its step, 1 first.
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
    """Everything a search looked at: `candidates` of each step, of which it kept `width`."""

    width: int
    length_penalty: float
    formula: str
    candidates: int
    nodes: list[TreeNode]


@dataclass(frozen=True)
class ModelFacts:
    """The model that was looked into."""

    name: str
    config: dict[str, SettingValue]
    parameters: int
    sha256: str
    tokenizer_sha256: str


@dataclass(frozen=True)
class RunFacts:
    """How the numbers were made."""

    dtype: str
    device: str
    pellucid: str
    torch: str
    search: dict[str, SettingValue]
    seconds: float


@dataclass(frozen=True)
class TraceFacts:
    """All of it. `id` is a hash of the model, the sentence, the settings and the edits.

    `text` is the whole line that a user gets, with tags and white space where they stood; `translation_notes` are those
    of the translation, `notes` these and what is to be said of the trace.
    """

    id: str
    sentence: str
    model: ModelFacts
    run: RunFacts
    source: TraceSide
    target: TraceSide
    inputs: DecoderInputs
    forced: bool
    stop: Literal["eos", "length"]
    log_prob: float
    score: float
    notes: list[str]
    edits: list[EditSpec]
    steps: list[DecodingStep]
    tree: SearchTree | None
    text: str
    piece_log_probs: list[float]
    translation_notes: list[str]
