"""The pieces of a Marian model of Hugging Face: its numbers and ours, and the files of its tokenizer."""

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
    """The pieces of one language, as we number them, and the number each of them has there.

    Our start mark may be a copy of a piece of theirs, their padding as a rule; that piece then has two numbers here.
    """

    names: list[str]
    order: list[int]
    copied: bool

    @property
    def rows(self) -> list[int]:
        """Where each of their pieces stands among ours: the inverse of `order`."""
        ours = {theirs: place for place, theirs in enumerate(self.order) if not (self.copied and place == 2)}
        return [ours[i] for i in range(len(ours))]


def renumber_pieces(ids: Mapping[str, int], start: int) -> Vocabulary:
    """Their pieces in our order: padding, unknown, start and end first, the rest as they come.

    A start mark that is nothing else moves to the front; one that is also padding, or a word, is copied there.

    >>> renumber_pieces({"</s>": 0, "<unk>": 1, "cat": 2, "<pad>": 3}, start=3)
    Vocabulary(names=['<pad>', '<unk>', '<s>', '</s>', 'cat'], order=[3, 1, 3, 0, 2], copied=True)
    """
    names = sorted(ids, key=lambda name: ids[name])
    pad, unknown, end = (ids[name] for name in SPECIAL_TOKENS.values())
    copied = names[start] != START_TOKEN
    front = [pad, unknown, start, end]
    order = front + [i for i in range(len(names)) if i not in ({pad, unknown, end} if copied else front)]
    mark = START_TOKEN
    while copied and mark in ids:
        mark = f"<{mark}>"
    return Vocabulary([mark if place == 2 else names[i] for place, i in enumerate(order)], order, copied)


def read_vocabularies(files: Mapping[str, Any]) -> tuple[list[Vocabulary], list[str]]:
    """The pieces of the source and of the target, and a sentence for each thing that keeps them from being read."""
    config, settings = files["config.json"], files.get("tokenizer_config.json", {})
    separate = settings.get("separate_vocabs", False)
    target = "target_vocab.json" if separate else "vocab.json"
    problems = [f"{name} is missing" for name in dict.fromkeys(("vocab.json", target)) if name not in files]
    problems += tokenizer_rule_problems(files)
    sizes = [config.get("vocab_size")] * 2
    if config.get("model_type") == "marian":
        sizes[1] = config.get("decoder_vocab_size") or sizes[0]
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
    written = renumber_pieces(files[target], start)
    # No source is ever begun with a start mark: it may be a copy of anything.
    read = (
        renumber_pieces(files["vocab.json"], files["vocab.json"].get(START_TOKEN, config["pad_token_id"]))
        if separate
        else written
    )
    if tied_matrices(config) == "all" and read.order != written.order:
        problems.append("vocab.json and target_vocab.json number the special pieces differently, but share one matrix")
    return [read, written], problems


def vocabulary_problems(name: str, ids: Mapping[str, Any], size: Any, config: Mapping[str, Any], key: str) -> list[str]:
    """Why a vocab.json cannot be the vocabulary of a model with so many pieces."""
    if not all(type(i) is int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        return [f"{name} does not give each piece a number of its own, from 0 to {len(ids) - 1:,}"]
    if any(re.search("[\0\ud800-\udfff]", piece) for piece in ids):
        return [f"{name} has a piece that is no text"]
    problems = [f"{name} has no {piece}" for piece in SPECIAL_TOKENS.values() if piece not in ids]
    if len(ids) != size:
        problems.append(f"{name} has {len(ids):,} pieces, the model {size!r:.60}")
    piece = SPECIAL_TOKENS[key.removesuffix("_id")]
    if ids.get(piece) != config.get(key):
        problems.append(f"{name} gives {piece} the number {ids.get(piece)}, config.json says {config.get(key)!r:.60}")
    return problems


def tokenizer_rule_problems(files: Mapping[str, Any]) -> list[str]:
    """Rules of a tokenizer beyond what a SentencePiece model and a list of pieces can hold."""
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
    for where in ("tokenizer_config.json", "special_tokens_map.json"):
        problems += [
            f"{where}: {key} is {token_content(value)!r:.60}, only {usual!r} is read"
            for key, usual in SPECIAL_TOKENS.items()
            if token_content(value := files.get(where, {}).get(key, usual)) != usual
        ]
    added = [*list_values(settings.get("added_tokens_decoder")), *files.get("added_tokens.json", {})]
    for where in ("tokenizer_config.json", "special_tokens_map.json"):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            added += list_values(files.get(where, {}).get(key))
    extra = sorted({str(token_content(each)) for each in added} - set(SPECIAL_TOKENS.values()))
    if extra:
        problems.append(f"the tokenizer has pieces that SentencePiece does not cut: {', '.join(extra[:8])!r:.200}")
    return problems


def token_content(token: Any) -> Any:
    """A piece, which may be written as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


def list_values(listed: Any) -> list[Any]:
    """What stands in a list or an object; nothing for anything else."""
    return list(listed.values()) if isinstance(listed, dict) else listed if isinstance(listed, list) else []


def load_marian_tokenizer(directory: Path, source: Vocabulary, target: Vocabulary) -> Tokenizer:
    """The two SentencePiece models of a folder, with their pieces as we number them."""
    models = [read_pieces(directory / name)[0] for name in SENTENCEPIECE_FILES]
    joint = models[0].serialized_model_proto() == models[1].serialized_model_proto() and source == target
    config = TokenizerConfig("marian", max(len(source.names), len(target.names)), joint)
    sides = [ListedPieces(model, side.names) for model, side in zip(models, (source, target), strict=True)]
    return Tokenizer(sides[0], sides[-1], config)


def marian_order(pieces: int) -> list[int]:
    """Our pieces as Marian numbers them: end and unknown first, padding last, which starts a translation too.

    Two vocabularies keep our numbers, for transformers has one number of padding for both.

    >>> marian_order(7)
    [3, 1, 4, 5, 6, 0]
    """
    return [EOS, UNK, *range(EOS + 1, pieces), PAD]


def tokenizer_files(model: ModelConfig, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """The files with which MarianTokenizer cuts a text as a tokenizer of ours does, into the same pieces.

    Where it does not: text with U+2581, U+2585 or U+FDD0, which ours spells otherwise, and a line that begins with
    >>...<<, which Marian takes for the name of a language.
    """
    separate = not has_one_vocabulary(tokenizer)
    source, target = (
        {name: i for i, name in enumerate(pieces if separate else [pieces[i] for i in marian_order(len(pieces))])}
        for pieces in (tokenizer.source_names, tokenizer.target_names)
    )
    marks = dict(zip(SPECIAL_TOKENS, tokenizer.target_pieces([PAD, UNK, EOS]), strict=True))
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
            **marks,
        },
        "special_tokens_map.json": marks,
    }
