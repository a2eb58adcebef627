"""The pieces of a CTranslate2 model: its vocabularies, its special pieces, and the SentencePiece model beside them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.data.tokenizer import (
    BOS,
    PAD,
    ListedPieces,
    Tokenizer,
    TokenizerConfig,
    read_pieces,
    refuse_odd_pieces,
)
from pellucid.store.atomic import join_problems

_LARGEST_FILE = 32 * 2**20  # bytes of the largest vocabulary that is read
# Names of two SentencePiece models, the source's first; of one for
# both languages, any name of these endings.
_PIECE_MODELS = (("source.spm", "target.spm"), ("tokenizer.source.model", "tokenizer.target.model"))
_PIECE_MODEL_ENDINGS = (".model", ".spm")


@dataclass(frozen=True)
class SpecialPieces:
    """The pieces that are no text: unknown, the start of a translation, and the end of a sentence.

    With `starts_from_zero` the decoder reads zeros at the start, and not the embedding of `start`.
    """

    unknown: str
    start: str
    end: str
    starts_from_zero: bool = False


@dataclass(frozen=True)
class PieceOrder:
    """Pieces of one language in our order, and the row of each in matrices that have `stored` rows.

    The row behind the last of them is one of zeros. The `made` ids are pieces that they do not
    have, or a second one for a piece that they have; those are read, and never written.
    """

    names: tuple[str, ...]
    rows: list[int]
    made: list[int]
    stored: int


def order_pieces(pieces: Sequence[str], special: SpecialPieces) -> PieceOrder:
    """Put their pieces into our order: padding, unknown, start and end first, the others as they come.

    Padding that they do not have gets the row of zeros. A start that is
    also padding or the end gets a second id.

    >>> order_pieces(["<unk>", "<s>", "</s>", "cat"], SpecialPieces("<unk>", "<s>", "</s>"))
    PieceOrder(names=('<pad>', '<unk>', '<s>', '</s>', 'cat'), rows=[4, 0, 1, 2, 3], made=[0], stored=4)
    >>> order_pieces(["</s>", "<unk>", "cat"], SpecialPieces("<unk>", "</s>", "</s>", starts_from_zero=True))
    PieceOrder(names=('<pad>', '<unk>', '<s>', '</s>', 'cat'), rows=[3, 1, 3, 0, 2], made=[0, 2], stored=3)
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    zeros = len(pieces)
    padding = next((ids[piece] for piece in ("<pad>", "<blank>") if piece in ids), zeros)
    start = zeros if special.starts_from_zero else ids.get(special.start, zeros)
    front = [padding, ids[special.unknown], start, ids[special.end]]
    has_own_start = start != zeros and front.count(start) == 1

    # A start that is something else, too, keeps its place as that.
    moved = {row for place, row in enumerate(front) if has_own_start or place != BOS}
    rows = front + [row for row in range(len(pieces)) if row not in moved]
    names = [pieces[row] if row != zeros else "" for row in rows]

    made = []
    if padding == zeros:
        made.append(PAD)
    if not has_own_start:
        made.append(BOS)
    for i in made:
        names[i] = _free_name("<pad>" if i == PAD else "<s>", ids)
    return PieceOrder(tuple(names), rows, made, len(pieces))


def _free_name(name: str, taken: Mapping[str, int]) -> str:
    """Return a name that no piece has, because pieces are told apart by their text."""
    while name in taken:
        name = f"<{name}>"
    return name


def read_piece_orders(directory: Path, special: SpecialPieces) -> tuple[PieceOrder, PieceOrder]:
    """Read the pieces of the source and of the target, each in our order; ValueError names every problem."""
    shared = _find_vocabulary(directory, "shared")
    files = {side: shared or _find_vocabulary(directory, side) for side in ("source", "target")}
    pieces = {side: _read_list(path) for side, path in files.items() if path is not None}
    problems = []
    for side, path in files.items():
        if path is None:
            problems.append(f"{side}_vocabulary.json is missing")

    for side, listed in pieces.items():
        needed = [special.unknown, special.end]
        if side == "target" and not special.starts_from_zero:
            needed.append(special.start)
        for piece in needed:
            if piece not in listed:
                problems.append(f"the {side} vocabulary has no piece {piece!r:.60}")

    languages = [piece for piece in pieces.get("source", []) if re.fullmatch("<to:.+>", piece)]
    if languages:
        problems.append(
            f"it is multilingual: a piece such as {languages[0]:.60} says which language to write"
        )

    if problems:
        distinct = list(dict.fromkeys(problems))
        raise ValueError(f"{directory} cannot be imported: {join_problems(distinct)}")

    target = order_pieces(pieces["target"], special)
    if pieces["source"] == pieces["target"]:
        return target, target
    return order_pieces(pieces["source"], special), target


def _find_vocabulary(directory: Path, side: str) -> Path | None:
    for ending in ("json", "txt"):
        path = directory / f"{side}_vocabulary.{ending}"
        if path.is_file():
            return path
    return None


def _read_list(path: Path) -> list[str]:
    """Read a vocabulary: a list in JSON or, in older models, one piece a line."""
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, too many for a vocabulary ({_LARGEST_FILE:,})"
        )
    try:
        text = path.read_bytes().decode()
        pieces = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a vocabulary: {error!s:.200}") from None

    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ValueError(f"{path} is not a list of pieces")
    refuse_odd_pieces(pieces, path)
    return pieces


def load_listed_tokenizer(
    directory: Path,
    piece_model: Path | None,
    source: PieceOrder,
    target: PieceOrder,
    source_end: bool,
) -> Tokenizer:
    """Load the SentencePiece model or models, with the pieces in our order.

    `piece_model` is the model of both languages; without it the models are looked
    for in the directory. Raises ValueError, saying what to do, where there is
    none, or where it is not clear which it is.
    """

    paths = [piece_model] if piece_model is not None else _find_piece_models(directory)
    models = [read_pieces(path)[0] for path in paths]
    joint = len(models) == 1 and source == target
    largest = max(len(source.names), len(target.names))
    config = TokenizerConfig("marian", largest, joint, source_end=source_end)
    reading = ListedPieces(models[0], source.names)
    writing = reading if joint else ListedPieces(models[-1], target.names)
    return Tokenizer(reading, writing, config)


def _find_piece_models(directory: Path) -> list[Path]:
    for names in _PIECE_MODELS:
        paths = [directory / name for name in names]
        if all(path.is_file() for path in paths):
            return paths

    found = sorted(path for path in directory.iterdir() if path.suffix in _PIECE_MODEL_ENDINGS)
    if len(found) == 1:
        return found

    which = f"several files beside it may be one ({join_problems([path.name for path in found])})"
    raise ValueError(
        f"{directory} cannot be imported: a model of CTranslate2 comes without its SentencePiece model, and "
        f"{which if found else 'none lies beside it'}; copy the one that it was trained with there, as source.spm and "
        "target.spm (twice the same file if it is one for both languages)"
    )
