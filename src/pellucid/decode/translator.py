"""Translates lines of text: ids, the stages around the search, the engine, and text again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from pellucid.data.context import DocumentReader
from pellucid.data.source_profile import SourceProfile
from pellucid.data.term_marks import Marks
from pellucid.data.tokenizer import FORBIDDEN, Tokenizer
from pellucid.decode.confidence import Calibration
from pellucid.decode.line_segments import LengthLimits, Line, LineStageMaker, TranslationTask
from pellucid.decode.request import BLOCK, Engine, SearchBounds, SearchConfig, continue_always
from pellucid.decode.source_reader import SourceReader
from pellucid.decode.stages.selection import make_line_search
from pellucid.decode.stages.splitting import look_for_markup
from pellucid.decode.torch_models import TorchModels
from pellucid.decode.translation import Translation
from pellucid.store.directory import Bundle

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology
    from pellucid.decode.terms.required import WordEdges
    from pellucid.decode.torch_engine import TorchEngine
    from pellucid.model import Transformer


class Translator:
    """A model, or several that translate together, and their tokenizer.

    A call makes a `Line` of each text, puts a stage around the search for each thing that was asked
    for (`make_line_search`), and hands it the lines. No state is kept between calls.

    `trained` is the length in pieces of the longest source the model was trained on: a longer
    sentence is cut where it can be. `profile` says what the sources of its training text looked
    like, `target_language` is the code of the language that it writes; both may be unknown.
    """

    def __init__(
        self,
        model: "Transformer | Bundle",
        tokenizer: Tokenizer,
        *others: "Transformer | Bundle",
        trained: int | None = None,
        profile: SourceProfile | None = None,
        target_language: str | None = None,
    ):
        # One line in, one line out: the byte that would end the line is never written.
        line_feeds = tuple(i for i, piece in enumerate(tokenizer.target_names) if piece == "<0x0A>")
        forbidden = FORBIDDEN + line_feeds
        if tokenizer.target is tokenizer.source:
            forbidden += tuple(tokenizer.marks)

        self.tokenizer = tokenizer
        self.models = TorchModels([model, *others], tokenizer, forbidden)
        self.bounds = SearchBounds(self.models.max_positions, forbidden)
        longest = self.bounds.longest
        self.lengths = LengthLimits(min(trained or longest, longest), longest)
        self.reader = SourceReader(tokenizer, profile, target_language)
        """Reader that turns texts of users into texts like the ones the model was trained on."""
        self.context = 0
        """Sentences before a line that the model was trained to read with it."""
        self.term_marks: Marks | None = None
        """Pieces around terms in the sources of training; None where it had no terms."""
        self.memory_mark: int | None = None
        """Piece behind a similar translation in the sources of training; None where it had none."""
        self.calibration: Calibration | None = None

    @property
    def profile(self) -> SourceProfile | None:
        """Counts of how the sources of the training text look; None where that is unknown."""
        return self.reader.profile

    @property
    def torch(self) -> "TorchEngine":
        """Torch engine, which runs the models themselves and can do everything an engine is asked for."""
        return self.models.engine

    @cached_property
    def engine(self) -> Engine:
        """Engine that searches: torch, unless another one was put in its place."""
        return self.torch

    @cached_property
    def word_edges(self) -> "WordEdges":
        """Tokens that begin or end within a word, for what a translation must have; computed without torch."""
        from pellucid.decode.terms.required import WordEdges

        return WordEdges.from_tokenizer(self.tokenizer)

    def with_torch_alone(self) -> "Translator":
        """Return this translator without the engine in torch's place, so that who keeps it does not keep that."""
        translator = copy(self)
        translator.engine = self.torch
        return translator

    def into(self, language: str) -> "Translator":
        """Return the translator of a multilingual model for one language to write, with the same engine."""
        translator = copy(self)
        translator.tokenizer = self.tokenizer.into(language)
        translator.reader = replace(self.reader, tokenizer=translator.tokenizer, target_language=language)
        return translator

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig,
        first_line: int = 1,
        *,
        terms: "Terminology | None" = None,
        prefixes: Sequence[str] | None = None,
        contexts: Sequence[str] | None = None,
        translation_memory: LineStageMaker | None = None,
        check_wanted: Callable[[], None] = continue_always,
    ) -> list[Translation]:
        """Return one translation for each line, in order.

        A blank line, or one with nothing to translate, is returned as it is, with stop = "empty";
        so is one without a letter, unless the model `translates_numbers`. A line that cannot be
        translated as asked is returned as it is too, with stop = "failed" and the reason in its
        notes. Lines are counted from `first_line`: that number is what an error names, and what the
        draws of sampling depend on together with the seed. The translation of a line has what
        `terms` ask of it (`search_with_terms` says where), and begins with its text of `prefixes`.
        Each line is read with its text of `contexts`, the sentences before it. A line without
        prefix that is in `translation_memory` is not searched for: it gets that translation, and
        stop = "memory". Raises ValueError, naming the lines, for lines that the model cannot take,
        and for weights that are infinite or NaN. `check_wanted` is called again and again while it
        translates, and stops it by an exception, which is passed on.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"{len(lines)} lines and {len(prefixes)} prefixes: each line needs a prefix, which may be empty"
            )

        task_lines = []
        for i, text in enumerate(lines):
            prefix = "" if prefixes is None else prefixes[i]
            context = "" if contexts is None else contexts[i]
            line = Line(text, first_line + i, prefix, context)
            task_lines.append(look_for_markup(line, self.reader, config, terms))

        task = TranslationTask(task_lines, config, terms, translation_memory, check_wanted)
        translate_lines = make_line_search(self, task)
        with self.models.inference():
            return translate_lines(task_lines)

    def translate_stream(
        self,
        lines: Iterable[str],
        config: SearchConfig,
        block: int = BLOCK,
        *,
        terms: "Terminology | None" = None,
        prefixes: Iterable[str] | None = None,
        translation_memory: LineStageMaker | None = None,
        document: bool = False,
        first_line: int = 1,
        before: Iterable[str] = (),
    ) -> Iterator[Translation]:
        """Translate any number of lines, `block` of them at a time; otherwise like `translate`.

        The lines of a `document` are read with those before them; a blank line begins another
        document. Lines that begin in the middle of a file are counted from `first_line`, and
        `before` are the lines of the document that stand before them.
        """
        line_iterator = iter(lines)
        prefix_iterator = None if prefixes is None else iter(prefixes)
        reader = DocumentReader(self.context if document else 0)
        for line in before:
            reader.take(line)

        while block_lines := list(islice(line_iterator, block)):
            yield from self.translate(
                block_lines,
                config,
                first_line,
                terms=terms,
                prefixes=None if prefix_iterator is None else list(islice(prefix_iterator, len(block_lines))),
                contexts=list(map(reader.take, block_lines)) if document else None,
                translation_memory=translation_memory,
            )
            first_line += len(block_lines)
