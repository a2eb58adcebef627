"""Facts of a trace beside its tensors: pieces, decoding steps, the search tree, and where everything came from.

The field names are those of the page's manifest and of the saved file.
"""

from dataclasses import dataclass
from typing import Literal

# Every class here is written out as JSON: renaming a field breaks saved traces and the page.
from pellucid.trace.edits import EditSpec

SettingValue = bool | int | float | str
"""A value in a table of settings."""


@dataclass(frozen=True)
class TraceSide:
    """One language of a trace.

    `words` has for each piece the index of its word in `text` (words are separated by white space), None for special
    tokens. `unknown` marks the pieces that are UNK, or bytes of a character that no piece covers.
    """

    text: str
    normalised: str
    pieces: list[str]
    ids: list[int]
    words: list[int | None]
    unknown: list[bool]


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

    `others` is the probability of all pieces outside `top`; `rank` is the rank of the chosen piece among all, 1 first.
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

    `total` is the sum of the log-probabilities from the root, `score` is `total` divided by the length penalty, `rank`
    is the candidate's rank within its step, 1 first.
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
    """All candidates of a search: `candidates` at each step, of which it kept `width`."""

    width: int
    length_penalty: float
    formula: str
    candidates: int
    nodes: list[TreeNode]


@dataclass(frozen=True)
class ModelFacts:
    """The model that was traced."""

    name: str
    config: dict[str, SettingValue]
    parameters: int
    sha256: str
    tokenizer_sha256: str


@dataclass(frozen=True)
class RunFacts:
    """Machine, programs and search settings that made the numbers of a trace."""

    dtype: str
    device: str
    pellucid: str
    torch: str
    search: dict[str, SettingValue]
    seconds: float


@dataclass(frozen=True)
class TraceFacts:
    """All facts of a trace. `id` is a hash of the model, the sentence, the settings and the edits.

    `text` is the whole line that a user gets, with tags and white space where they stood; `translation_notes` are those
    of the translation, `notes` these and the remarks about the trace.
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
