"""Vocabularies of Hugging Face's Marian models: their ids and ours, and the files of their tokenizer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.data.tokenizer import EOS, PAD, UNK, ListedPieces, Tokenizer, TokenizerConfig, read_pieces
from pellucid.interop.marian_config import has_one_vocabulary, shares_vocabulary, tied_matrices
from pellucid.model import ModelConfig

SPECIAL_TOKENS = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
START_TOKEN = "<s>"
SENTENCEPIECE_FILES = ("source.spm", "target.spm")


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of one language in our order, and the id each of them has in the Marian model.

    If `copied`, our BOS is a copy of one of their pieces, usually their padding; that piece then has two ids here.
    """

    names: list[str]
    order: list[int]
    copied: bool

    @property
    def rows(self) -> list[int]:
        """Our id of each of their pieces: the inverse of `order`."""
        # 2 is BOS: a copy does not count, the piece has an id of its own.
        ours = {theirs: index for index, theirs in enumerate(self.order) if not (self.copied and index == 2)}
        return [ours[i] for i in range(len(ours))]


def renumber_pieces(ids: Mapping[str, int], start: int) -> Vocabulary:
    """Put their pieces into our order: padding, unknown, start and end first, the others as they come.

    A start token with no other use moves to the front; one that is also padding, or a word, is copied there.

    >>> renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<pad>": 3}, start=3)
    Vocabulary(names=['<pad>', '<unk>', '<s>', '</s>', 'cat'], order=[3, 1, 3, 0, 2], copied=True)
    """
    names = sorted(ids, key=lambda name: ids[name])
    pad, unknown, end = (ids[name] for name in SPECIAL_TOKENS.values())
    copied = names[start] != START_TOKEN
    front = [pad, unknown, start, end]
    order = front + [i for i in range(len(names)) if i not in ({pad, unknown, end} if copied else front)]
    # Pieces are told apart by their text, so the copy needs one that no other piece has.
    start_name = START_TOKEN
    while copied and start_name in ids:
        start_name = f"<{start_name}>"
    return Vocabulary([start_name if index == 2 else names[i] for index, i in enumerate(order)], order, copied)


def read_vocabularies(files: Mapping[str, Any]) -> tuple[list[Vocabulary], list[str]]:
    """Return the vocabularies of the source and of the target, and a sentence for each problem."""
    config, settings = files["config.json"], files.get("tokenizer_config.json", {})
    separate = settings.get("separate_vocabs", False)
    target = "target_vocab.json" if separate else "vocab.json"
    problems = [f"{name} is missing" for name in dict.fromkeys(("vocab.json", target)) if name not in files]
    problems += tokenizer_rule_problems(files)
    sizes = [config.get("vocab_size")] * 2
    if config.get("model_type") == "marian":
        sizes[1] = config.get("decoder_vocab_size") or sizes[0]  # the key may be there and null
    for name, size, key in zip(("vocab.json", target), sizes, ("pad_token_id", "eos_token_id"), strict=True):
        problems += vocabulary_problems(name, files.get(name, {}), size, config, key)
    if sizes[0] != sizes[1] and shares_vocabulary(config):
        problems.append(
            f"decoder_vocab_size is {sizes[1]!r:.60}, vocab_size {sizes[0]!r:.60}, and both sides share pieces"
        )
    start = config.get("decoder_start_token_id")
    if type(start) is not int or not 0 <= start < len(files.get(target, {})):
        problems.append(f"decoder_start_token_id is {start!r:.60}, which is no piece")
    if problems:
        return [], list(dict.fromkeys(problems))
    target_vocabulary = renumber_pieces(files[target], start)
    # No source begins with BOS: there it may be a copy of anything.
    source_vocabulary = (
        renumber_pieces(files["vocab.json"], files["vocab.json"].get(START_TOKEN, config["pad_token_id"]))
        if separate
        else target_vocabulary
    )
    if tied_matrices(config) == "all" and source_vocabulary.order != target_vocabulary.order:
        problems.append("vocab.json and target_vocab.json number the special pieces differently, but share one matrix")
    return [source_vocabulary, target_vocabulary], problems


def vocabulary_problems(name: str, ids: Mapping[str, Any], size: Any, config: Mapping[str, Any], key: str) -> list[str]:
    """Return why a vocab.json cannot be the vocabulary of a model with `size` pieces."""
    if not all(type(i) is int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        return [f"{name} does not give each piece a number of its own, from 0 to {len(ids) - 1:,}"]
    # JSON can spell a NUL, and half of a surrogate pair.
    if any(re.search("[\0\ud800-\udfff]", piece) for piece in ids):
        return [f"{name} has a piece that is not valid text"]
    problems = [f"{name} has no {piece}" for piece in SPECIAL_TOKENS.values() if piece not in ids]
    if len(ids) != size:
        problems.append(f"{name} has {len(ids):,} pieces, the model {size!r:.60}")
    piece = SPECIAL_TOKENS[key.removesuffix("_id")]
    if ids.get(piece) != config.get(key):
        problems.append(f"{name} gives {piece} the number {ids.get(piece)}, config.json says {config.get(key)!r:.60}")
    return problems


def tokenizer_rule_problems(files: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each rule of a tokenizer that a SentencePiece model and a list of pieces cannot hold."""
    settings = files.get("tokenizer_config.json", {})
    problems = []
    if (forced := files.get("generation_config.json", {}).get("forced_bos_token_id")) is not None:
        problems.append(f"generation_config.json forces the first piece to be {forced!r:.60}: no piece is forced here")
    if (kind := settings.get("tokenizer_class", "MarianTokenizer")) != "MarianTokenizer":
        problems.append(f"the tokenizer is a {kind!r:.60}, only MarianTokenizer is read")
    if settings.get("sp_model_kwargs"):
        problems.append("sp_model_kwargs of tokenizer_config.json is not empty: pieces are cut one way here")
    if not isinstance(settings.get("separate_vocabs", False), bool):
        problems.append("separate_vocabs of tokenizer_config.json is neither true nor false")
    for file_name in ("tokenizer_config.json", "special_tokens_map.json"):
        problems += [
            f"{file_name}: {key} is {token_content(value)!r:.60}, only {usual!r} is read"
            for key, usual in SPECIAL_TOKENS.items()
            if token_content(value := files.get(file_name, {}).get(key, usual)) != usual
        ]
    added = [*list_values(settings.get("added_tokens_decoder")), *files.get("added_tokens.json", {})]
    # Versions of transformers differ in the name of the key.
    for file_name in ("tokenizer_config.json", "special_tokens_map.json"):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            added += list_values(files.get(file_name, {}).get(key))
    extra = sorted({str(token_content(token)) for token in added} - set(SPECIAL_TOKENS.values()))
    if extra:
        problems.append(f"the tokenizer has pieces that SentencePiece does not produce: {', '.join(extra[:8])!r:.200}")
    return problems


def token_content(token: Any) -> Any:
    """Return the text of a token, which may be written as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


def list_values(value: Any) -> list[Any]:
    """Return the values of a list or an object; none for anything else."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def load_marian_tokenizer(directory: Path, source: Vocabulary, target: Vocabulary) -> Tokenizer:
    """Load the two SentencePiece models of a directory, with their pieces in our order."""
    models = [read_pieces(directory / name)[0] for name in SENTENCEPIECE_FILES]
    joint = models[0].serialized_model_proto() == models[1].serialized_model_proto() and source == target
    config = TokenizerConfig("marian", max(len(source.names), len(target.names)), joint)
    sides = [ListedPieces(model, side.names) for model, side in zip(models, (source, target), strict=True)]
    return Tokenizer(sides[0], sides[-1], config)


def marian_order(pieces: int) -> list[int]:
    """Return our pieces in Marian's order: EOS and unknown first, padding last, which starts a translation too.

    >>> marian_order(7)
    [3, 1, 4, 5, 6, 0]
    """
    return [EOS, UNK, *range(EOS + 1, pieces), PAD]


def tokenizer_files(model: ModelConfig, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """Make the files with which MarianTokenizer cuts a text into the same pieces as our tokenizer.

    It differs for text with U+2581, U+2585 or U+FDD0, which ours spells in another way, and for a line that begins with
    >>...<<, which Marian takes for the name of a language.
    """
    separate = not has_one_vocabulary(tokenizer)
    # Two vocabularies keep our ids, because transformers has one id of padding for both.
    source, target = (
        {name: i for i, name in enumerate(pieces if separate else [pieces[i] for i in marian_order(len(pieces))])}
        for pieces in (tokenizer.source_names, tokenizer.target_names)
    )
    special_tokens = dict(zip(SPECIAL_TOKENS, tokenizer.target_pieces([PAD, UNK, EOS]), strict=True))
    return {
        "vocab.json": source,
        **({"target_vocab.json": target} if separate else {}),
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": model.max_positions,
            "separate_vocabs": separate,
            "source_lang": None,
            "target_lang": None,
            "split_special_tokens": True,  # "</s>" in a text is text
            "clean_up_tokenization_spaces": False,
            **special_tokens,
        },
        "special_tokens_map.json": special_tokens,
    }
