"""The tokenizer: SentencePiece, learned from the training text or imported, turns text into token ids and back."""

import io
import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

# Ids of the special tokens in every vocabulary: padding, unknown,
# start, end. No text ever encodes to one of them.
PAD, UNK, BOS, EOS = 0, 1, 2, 3

_SPECIAL = (PAD, UNK, BOS, EOS)

# UNK is forbidden too: the byte pieces can spell any character that has no piece of its own.
FORBIDDEN = (PAD, UNK, BOS)  # token ids that no search may write


class ListedPieces:
    """A SentencePiece model with a list of pieces, in which the index of a piece is its id.

    A piece of the model that is not listed is unknown. A piece of the list that the model never
    cuts, such as one of the other language, can still be predicted. A line may begin with the code
    of the language it is to be translated into, such as >>fra<<: that is one piece, known or not,
    however the SentencePiece model would cut it. These are the rules of MarianTokenizer in
    transformers 5, except that the names of special tokens are text like any other.
    """

    def __init__(self, model: SentencePieceProcessor, names: Sequence[str]):
        self.model = model
        self.names = tuple(names)
        # Without the special tokens: a text that spells "</s>" must not end the sentence.
        self.ids = {name: i for i, name in enumerate(names) if i not in _SPECIAL}

    def vocab_size(self) -> int:
        """Return the number of pieces in the list, including the four special tokens."""
        return len(self.names)

    def id_to_piece(self, number: int) -> str:
        """Return the piece with this id."""
        return self.names[number]

    def encode(self, lines: Iterable[str], add_eos: bool, num_threads: int) -> list[list[int]]:
        """Return the ids of each line; TypeError, as from SentencePiece, for a line that is not a text."""
        marked = [_language_mark(line) for line in lines]
        cut = self.model.encode([text for _, text in marked], out_type=str, num_threads=num_threads)

        encoded: list[list[int]] = []
        for (mark, _), pieces in zip(marked, cut, strict=True):
            ids = [self.ids.get(piece, UNK) for piece in (*mark, *pieces)]
            encoded.append([*ids, EOS] if add_eos else ids)
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of one sentence, without the space before its first word."""
        text = self.model.decode_pieces([self.names[i] for i in ids] or [""])
        return text.replace("▁", " ").strip()  # a piece that the model does not know keeps its "▁"

    def serialized_model_proto(self) -> bytes:
        """Return the bytes of the SentencePiece model, which do not contain the list."""
        return self.model.serialized_model_proto()


def _language_mark(line: str) -> tuple[tuple[str, ...], str]:
    """Split a line into the language code >>...<< that it may begin with, and the rest.

    >>> _language_mark(">>fra<< Good morning."), _language_mark("Good morning.")
    ((('>>fra<<',), ' Good morning.'), ((), 'Good morning.'))
    """
    end = line.find("<<")
    if not line.startswith(">>") or end < 0:
        return (), line
    return (line[: end + 2],), line[end + 2 :]


# The number of special tokens and byte pieces; with a piece for every byte no character is unknown.
_SPECIAL_AND_BYTE_PIECES = 4 + 256
# The most bytes of a tokenizer's file; a quarter of a million pieces take 5 MB.
_LARGEST_FILE = 32 * 2**20
# Shares of the text whose characters get pieces, tried in turn until
# they fit; other characters become bytes.
_COVERAGES = (1.0, 0.9999, 0.9995, 0.999, 0.995, 0.99, 0.98)
# Name of a piece that says which language to write; SentencePiece cuts it out of no text.
_LANGUAGE = re.compile("<to:(.+)>")
# Names of the pieces around a term in a source, and its translation: the term's
# own text stands behind the first, its translation behind the second.
# SentencePiece cuts them out of no text either.
TERM_MARKS = ("<term>", "<means>", "</term>")
# Name of the piece behind the translation of a similar sentence, which stands before a source.
MEMORY_MARK = "<similar>"
# The number of lines from which threads pay, because SentencePiece
# takes milliseconds to start them for each call.
_LINES_FOR_THREADS = 64
# Other spellings of characters that SentencePiece uses itself: U+2581 is its space, and it
# skips lines with U+2585. An imported tokenizer was not learned from text spelled so, and
# gets it unchanged: for it, U+2581 is a space.
_ESCAPES = tuple(
    (character, f"\ufdd0{number}") for number, character in enumerate("\ufdd0\u2581\u2585")
)
# The kind of tokenizer that is imported, not learned, with a list of
# its pieces beside the SentencePiece model.
_IMPORTED_KIND = "marian"

_LEARNED_KINDS = ("bpe", "unigram", "char", "word")
_KINDS = "'bpe', 'unigram', 'char' or 'word'"

PieceModel = SentencePieceProcessor | ListedPieces

Line = TypeVar("Line")


@dataclass(frozen=True)
class TokenizerConfig:
    """Settings of a tokenizer; ValueError names every problem at once."""

    kind: Annotated[
        Literal["bpe", "unigram", "char", "word", "marian"],
        "how pieces are chosen: merged by frequency, pruned by likelihood, every character, the commonest words "
        "(marian: they were imported)",
    ] = "bpe"
    vocabulary: Annotated[int, "pieces to learn, the 260 special and byte pieces counted"] = 8000
    joint: Annotated[bool, "one vocabulary for both languages; false learns one for each"] = True
    lowercase: Annotated[
        bool, "make all text lower case before it is cut; the translations come out lower case too"
    ] = False
    source_end: Annotated[
        bool, "end each source with </s>; false for models of programs that do not, such as OpenNMT"
    ] = True

    def __post_init__(self) -> None:
        problems = []
        if self.kind not in (*_LEARNED_KINDS, _IMPORTED_KIND):
            problems.append(
                f"kind is {self.kind!r}, it must be {_KINDS}, or {_IMPORTED_KIND!r} if it was imported"
            )

        least = (4 if self.kind == _IMPORTED_KIND else _SPECIAL_AND_BYTE_PIECES) + 1
        if not least <= self.vocabulary <= 1_000_000:
            problems.append(
                f"vocabulary is {self.vocabulary}, it must be from {least} to 1,000,000"
            )

        if problems:
            raise ValueError("tokenizer: " + "; ".join(problems))


@dataclass(frozen=True)
class Tokenizer:
    """Text to token ids and back, for the source and the target language.

    Decoding an encoded text gives back every character, except that spaces (U+0020) at the ends are
    dropped, several spaces in a row become one, and a line feed, which no line has, becomes a
    space. With `lowercase` it gives back `text.lower()`. An imported tokenizer (kind "marian")
    gives back what its SentencePiece model leaves of a text, and may not know a character. The
    tokenizer of a multilingual model encodes sources for one `language` to write (`into`).
    """

    source: PieceModel
    target: PieceModel
    config: TokenizerConfig
    # Notes on the training for the user: a vocabulary that came out
    # smaller, characters spelled as bytes.
    notes: tuple[str, ...] = ()
    # The language that a multilingual model is to write; None of any
    # other, and where none was chosen yet.
    language: str | None = None

    @classmethod
    def train(
        cls,
        sources: Iterable[str],
        targets: Iterable[str],
        config: TokenizerConfig,
        *,
        seed: int,
        max_sentences: int,
        languages: Sequence[str] = (),
        marks: Sequence[str] = (),
    ) -> "Tokenizer":
        """Learn the pieces from at most `max_sentences` lines of each side, drawn by `seed`.

        Each of the `languages` that a multilingual model is to write gets a source piece of its
        own, and so does each of the `marks`, such as `TERM_MARKS`. The same lines, config and seed
        give the same bytes. Raises ValueError for text without any character, for a vocabulary with
        no room for the characters of the text, and for a kind that cannot be learned.
        """
        if config.kind == _IMPORTED_KIND:
            raise ValueError(
                f"a tokenizer of kind {_IMPORTED_KIND!r} is imported, not learned; choose {_KINDS}"
            )

        text = {
            "source": sample_lines(sources, max_sentences, seed),
            "target": sample_lines(targets, max_sentences, seed),
        }
        if config.joint:
            text = {"joint": text["source"] + text["target"]}

        names = [*(f"<to:{language}>" for language in languages), *marks]
        models: list[SentencePieceProcessor] = []
        notes: list[str] = []
        for side, lines in text.items():
            names_of_side = [] if side == "target" else names
            model, notes_of_side = _train_sentencepiece(lines, config, side, names_of_side)
            models.append(model)
            notes += notes_of_side
        return cls(models[0], models[-1], config, tuple(notes))

    @staticmethod
    def files(config: TokenizerConfig) -> list[str]:
        """Return the names of the files that `save` writes and `load` reads."""
        models = _model_files(config.joint)
        if config.kind != _IMPORTED_KIND:
            return models
        return [*models, *map(_list_file, models)]

    def save(self, directory: str | Path) -> None:
        """Write one SentencePiece model, or one for each side; the settings, `config`, must be saved separately."""
        # strict=False: a joint tokenizer has one file, which is the source's and the target's.
        names, sides = _model_files(self.config.joint), (self.source, self.target)
        for name, side in zip(names, sides, strict=False):
            (Path(directory) / name).write_bytes(side.serialized_model_proto())
            if isinstance(side, ListedPieces):
                pieces = json.dumps(side.names, ensure_ascii=False, indent=0)
                (Path(directory) / _list_file(name)).write_text(pieces + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | Path, config: TokenizerConfig) -> "Tokenizer":
        """Read the files that `save` wrote; ValueError, naming the file, for one that is not such a tokenizer."""
        paths = [Path(directory) / name for name in _model_files(config.joint)]
        sides = [_load_piece_model(path, config) for path in paths]
        return cls(sides[0], sides[-1], config)

    @property
    def lowercase(self) -> bool:
        """Whether all text is made lower case, so that translations are scored without case."""
        return self.config.lowercase

    @property
    def source_vocabulary(self) -> int:
        """The number of pieces of the source side, including the special tokens."""
        return self.source.vocab_size()

    @property
    def target_vocabulary(self) -> int:
        """The number of pieces of the target side, including the special tokens."""
        return self.target.vocab_size()

    @cached_property
    def languages(self) -> dict[str, int]:
        """Languages that a multilingual model writes, each with the id of its piece; none for any other model."""
        languages: dict[str, int] = {}
        for name, i in self._control_pieces.items():
            if match := _LANGUAGE.fullmatch(name):
                languages[match[1]] = i
        return languages

    @cached_property
    def term_marks(self) -> tuple[int, int, int] | None:
        """Ids of `TERM_MARKS`; None where the vocabulary has none, as the model was not trained with terms."""
        if not set(TERM_MARKS) <= self._control_pieces.keys():
            return None
        before, between, after = (self._control_pieces[name] for name in TERM_MARKS)
        return before, between, after

    @property
    def memory_mark(self) -> int | None:
        """Id of `MEMORY_MARK`; None where the vocabulary has none, as the model was not trained with similar pairs."""
        return self._control_pieces.get(MEMORY_MARK)

    @property
    def marks(self) -> list[int]:
        """Ids of all pieces that stand for no text: languages to write, and marks of terms and similar units."""
        return list(self._control_pieces.values())

    @cached_property
    def _control_pieces(self) -> dict[str, int]:
        """Ids of the pieces that no text becomes, by their names, the special tokens left out."""
        pieces: dict[str, int] = {}
        if isinstance(self.source, SentencePieceProcessor):
            # SentencePiece puts them right behind the special tokens.
            for i in range(len(_SPECIAL), self.source.vocab_size()):
                if not self.source.is_control(i):
                    break
                pieces[self.source.id_to_piece(i)] = i
        return pieces

    def into(self, language: str) -> "Tokenizer":
        """Return this tokenizer with the language to write; ValueError for one that the model does not write."""
        if not self.languages:
            raise ValueError(
                f"this model writes one language and is not told which; leave out {language!r:.40} (--to)"
            )

        if language not in self.languages:
            raise ValueError(
                f"this model translates into {', '.join(self.languages)}, not into {language!r:.40}"
            )

        # Kept, since each lists its pieces once; a server asks at every request.
        return self._by_language.setdefault(language, replace(self, language=language))

    @cached_property
    def _by_language(self) -> "dict[str, Tokenizer]":
        return {}

    @property
    def beginning(self) -> list[int]:
        """Token ids that each source begins with: the language to write and BOS, for a multilingual model.

        Raises ValueError where no language was chosen of several.
        """
        if not self.languages:
            return []
        language = next(iter(self.languages)) if len(self.languages) == 1 else self.language
        if language is None:
            raise ValueError(
                f"this model translates into {', '.join(self.languages)}; say into which: --to LANGUAGE, or "
                "model.into(LANGUAGE) in Python (a command without --to takes no multilingual model)"
            )
        return [self.languages[language], BOS]

    def encode_source(self, lines: Iterable[str]) -> list[list[int]]:
        """Return the token ids of each source line, with EOS last if `source_end`; an empty line is EOS alone.

        For a multilingual model each begins with the language to
        write, which its `beginning` explains.
        """
        beginning, rows = self.beginning, self.encode_source_text(lines)
        return [beginning + ids for ids in rows] if beginning else rows

    def encode_source_text(self, lines: Iterable[str]) -> list[list[int]]:
        """Return the token ids of each source line without a language, with EOS last if `source_end`."""
        rows = _encode_lines(self.source, lines, self.config)
        if self.config.source_end:
            return rows
        # A sentence without any token could not be attended to, so
        # EOS stays where it is all there is.
        return [ids[:-1] or ids for ids in rows]

    def encode_target(self, lines: Iterable[str]) -> list[list[int]]:
        """Return the token ids of each target line, with EOS last and no BOS."""
        return _encode_lines(self.target, lines, self.config)

    def decode_source(self, ids: Iterable[int]) -> str:
        """Return the text of one source sentence, without padding, BOS and EOS."""
        return _unescape(self.source.decode(_without_special_tokens(ids)), self.config)

    def decode_target(self, ids: Iterable[int]) -> str:
        """Return the text of one target sentence, without padding, BOS and EOS."""
        return _unescape(self.target.decode(_without_special_tokens(ids)), self.config)

    def decode_targets(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of several target sentences, in a fraction of the time of single calls of `decode_target`."""
        # SentencePiece takes longer to inspect the type of its argument than to decode a sentence.
        rows = [_without_special_tokens(ids) for ids in sentences]
        if isinstance(self.target, ListedPieces):
            texts = [self.target.decode(ids) for ids in rows]
        else:
            texts = self.target.decode(rows, num_threads=1) if rows else []
        return [_unescape(text, self.config) for text in texts]

    def source_pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the source pieces of ids, with ▁ at the start of a word; IndexError for an id that is too large."""
        return _pieces_of_ids(self.source_names, ids)

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the target pieces of ids, with ▁ at the start of a word; IndexError for an id that is too large."""
        return _pieces_of_ids(self.target_names, ids)

    @property
    def contents(self) -> tuple[bytes, bytes, list[str], list[str]]:
        """Everything that makes two tokenizers equal: the SentencePiece models and the pieces of source and target."""
        # An imported tokenizer lists its pieces beside its SentencePiece
        # model, so the model alone would not tell.
        models = self.source.serialized_model_proto(), self.target.serialized_model_proto()
        return *models, [*self.source_names], [*self.target_names]

    @cached_property
    def source_names(self) -> tuple[str, ...]:
        """All pieces of the source vocabulary, by their ids."""
        return _all_pieces(self.source)

    @cached_property
    def target_names(self) -> tuple[str, ...]:
        """All pieces of the target vocabulary, by their ids."""
        return self.source_names if self.target is self.source else _all_pieces(self.target)


def strip_eos(ids: list[int]) -> list[int]:
    """Return the token ids without EOS, if they end with it."""
    return ids[:-1] if ids[-1:] == [EOS] else ids


def sample_lines(lines: Iterable[Line], limit: int, seed: int) -> list[Line]:
    """Return all lines, or `limit` of them drawn evenly in one pass (reservoir sampling: Vitter 1985, algorithm R)."""
    generator, iterator = random.Random(seed), iter(lines)
    sample = list(islice(iterator, limit))
    # Line n replaces a line of the sample with probability limit / n, so
    # that every line so far is equally likely.
    for count, line in enumerate(iterator, start=limit + 1):
        index = generator.randrange(count)
        if index < limit:
            sample[index] = line
    return sample


def _train_sentencepiece(
    lines: list[str], config: TokenizerConfig, side: str, control_symbols: list[str]
) -> tuple[SentencePieceProcessor, list[str]]:
    """Train the SentencePiece model of one language, or of both; return it with notes on how it differs from config."""
    if not any(map(str.strip, lines)):
        raise ValueError(f"no text to learn the {side} vocabulary from: every line is empty")
    lines = _escape(lines, config)
    for coverage in _COVERAGES:
        model = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type=config.kind,
                vocab_size=config.vocabulary,
                hard_vocab_limit=False,  # too little text gives a smaller vocabulary, not an error
                normalization_rule_name="identity",
                character_coverage=coverage,
                byte_fallback=True,
                control_symbols=control_symbols,
                split_digits=True,
                # By default lines over 4,192 bytes are dropped in silence.
                max_sentence_length=2**30,
                shuffle_input_sentence=False,
                num_threads=4,  # fixed, because sums in another order give other pieces
                minloglevel=2,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
            )
        except RuntimeError as error:
            # More characters than the vocabulary has room for: try again with fewer of the rarest.
            if "required_chars" not in str(error):
                raise
            continue

        learned, notes = SentencePieceProcessor(model_proto=model.getvalue()), []
        if (size := learned.vocab_size()) < config.vocabulary:
            notes.append(
                f"the {side} vocabulary has {size:,} pieces, not {config.vocabulary:,}: the text has no more"
            )

        if coverage < 1.0:
            notes.append(
                f"the rarest characters, {1 - coverage:.2%} of the {side} text, are spelled as bytes"
            )
        return learned, notes

    characters = len(set(chain.from_iterable(lines)))
    raise ValueError(
        f"a {side} vocabulary of {config.vocabulary:,} has no room for the {characters:,} characters of the text; "
        f"ask for {_SPECIAL_AND_BYTE_PIECES + len(control_symbols) + 2 * characters:,} or more"
    )


def _load_piece_model(path: Path, config: TokenizerConfig) -> PieceModel:
    """Read a model file, and the list beside it if the kind has one, checking everything."""
    side, pieces = read_pieces(path)
    if config.kind == _IMPORTED_KIND:
        return ListedPieces(side, _read_list(path.with_name(_list_file(path.name)), config))
    if (side.pad_id(), side.unk_id(), side.bos_id(), side.eos_id()) != (PAD, UNK, BOS, EOS):
        raise ValueError(
            f"{path} is not ours: padding, unknown, start and end must be the pieces 0, 1, 2 and 3"
        )

    if not _SPECIAL_AND_BYTE_PIECES < len(pieces) <= config.vocabulary:
        raise ValueError(
            f"{path} has {len(pieces):,} pieces, its settings say at most {config.vocabulary:,}"
        )
    return side


def read_pieces(path: Path) -> tuple[SentencePieceProcessor, list[str]]:
    """Read any SentencePiece model and its pieces; ValueError, naming the file, for another file."""
    try:
        # b"\0" fails to parse; an empty file would be taken for no
        # argument, and give a processor without a model.
        side = SentencePieceProcessor(model_proto=_read_limited(path) or b"\0")
        pieces = [side.id_to_piece(i) for i in range(side.vocab_size())]
    except (RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a SentencePiece model: {error}") from None

    if any("\0" in piece for piece in pieces):
        raise ValueError(f"{path} has a piece with a NUL character")
    return side, pieces


def _read_list(path: Path, config: TokenizerConfig) -> list[str]:
    """Read the list of pieces, in the order of their ids."""
    try:
        names = json.loads(_read_limited(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None

    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} is not a list of pieces")
    if not 4 < len(names) <= config.vocabulary:
        raise ValueError(
            f"{path} has {len(names):,} pieces, its settings say from 5 to {config.vocabulary:,}"
        )

    refuse_odd_pieces(names, path)
    return names


def refuse_odd_pieces(names: Sequence[str], path: Path) -> None:
    """Raise ValueError for a list with a piece twice, or with one that is no text; `path` is its file."""
    # JSON can spell a NUL, and half of a surrogate pair.
    if len(set(names)) != len(names) or any(re.search("[\0\ud800-\udfff]", name) for name in names):
        raise ValueError(f"{path} has a piece twice, or one that is no text")


def _all_pieces(side: PieceModel) -> tuple[str, ...]:
    """Return all pieces of a side in the order of their ids."""
    # Kept by `source_names` and `target_names`: asking SentencePiece for pieces one at a time
    # takes as long as the rest of a translated line.
    return tuple(side.id_to_piece(i) for i in range(side.vocab_size()))


def _pieces_of_ids(names: Sequence[str], ids: Iterable[int]) -> list[str]:
    tokens = [*ids]
    # A negative id would count from the end, in silence.
    if tokens and not 0 <= min(tokens) <= max(tokens) < len(names):
        wrong = next(int(i) for i in tokens if not 0 <= i < len(names))
        raise IndexError(f"piece {wrong} is not one of the {len(names):,}")
    return [names[i] for i in tokens]


def _model_files(joint: bool) -> list[str]:
    """Return the file names of the SentencePiece models, the source's first."""
    return ["tokenizer.model"] if joint else ["tokenizer.source.model", "tokenizer.target.model"]


def _list_file(model: str) -> str:
    """Return the name of the list beside a model: tokenizer.pieces.json beside tokenizer.model."""
    return model.removesuffix(".model") + ".pieces.json"


def _read_limited(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, too many for a tokenizer ({_LARGEST_FILE:,})"
        )
    return path.read_bytes()


def _encode_lines(
    side: PieceModel, lines: Iterable[str], config: TokenizerConfig
) -> list[list[int]]:
    spelled = _escape(lines, config)
    try:
        if isinstance(side, SentencePieceProcessor) and len(spelled) < _LINES_FOR_THREADS:
            # One by one: for a list, even of one line, SentencePiece starts a thread.
            return [side.encode(line, add_eos=True) for line in spelled]
        threads = 1 if len(spelled) < _LINES_FOR_THREADS else -1
        return side.encode(spelled, add_eos=True, num_threads=threads)
    except (TypeError, RuntimeError):  # the second for a line alone
        # SentencePiece's message does not name the line; UTF-8
        # cannot encode half of a surrogate pair.
        for number, line in enumerate(spelled, start=1):
            if bad := re.search("[\ud800-\udfff]", line):
                raise ValueError(
                    f"line {number} has a lone surrogate, U+{ord(bad[0]):04X}: that is no text"
                ) from None
        raise


def _without_special_tokens(ids: Iterable[int]) -> list[int]:
    return [int(i) for i in ids if i not in (PAD, BOS, EOS)]


def _unescape(text: str, config: TokenizerConfig) -> str:
    """Turn text that SentencePiece decoded back into the text before `_escape`."""
    if config.kind == _IMPORTED_KIND:
        return text.replace("\n", " ")
    if config.kind == "word":  # the space before a word that has no piece is spelled in bytes, too
        text = text.replace("\u2581", " ").removeprefix(" ")
    # Backwards: the first escape spells the character that begins all of them.
    for character, escape in reversed(_ESCAPES):
        text = text.replace(escape, character)
    return text.replace("\n", " ")


def _escape(lines: Iterable[str], config: TokenizerConfig) -> list[str]:
    """Return the lines as SentencePiece gets them, with the characters replaced that it uses itself."""
    # Python's lower(): SentencePiece's own rule would also rewrite ß and combine accents.
    lines = [line.lower() for line in lines] if config.lowercase else list(lines)
    if config.kind == _IMPORTED_KIND:
        return lines
    for character, escape in _ESCAPES:
        lines = [line.replace(character, escape) for line in lines]
    return lines
