"""Ranges of the lines of one corpus, encoded each by itself in any process; `prepare_shards` joins them."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from pellucid.data.corpus import SentencePairs, SkippedPairs, select_valid_units, side_files
from pellucid.data.formats.units import Unit
from pellucid.data.shards import save_part
from pellucid.data.stream import encode_pairs_or_none
from pellucid.training.config import RunConfig
from pellucid.training.data import leave_out_dev, read_overlap, shard_settings
from pellucid.training.initial_model import initial_tokenizer
from pellucid.training.shard_writing import load_shards_tokenizer


class RangeEncoder:
    """Encodes ranges of the lines of a run's corpora that are two files of sentences."""

    def __init__(
        self, run: RunConfig, tokenizer_of: Path | None, dev: SentencePairs | None
    ) -> None:
        """Load the tokenizer of shards or of the initial model; `dev` are the pairs held out."""
        initial = initial_tokenizer(run)
        if tokenizer_of is not None:
            initial = load_shards_tokenizer(run, tokenizer_of, shard_settings(run, initial))
        assert initial
        self.run, self.tokenizer, self.dev = run, initial, dev
        is_compared = dev is None and not run.data.allow_overlap
        self.overlap = read_overlap(run.data) if is_compared else None

    def encode(
        self,
        number: int,
        first_line: int,
        sources: Sequence[str],
        targets: Sequence[str],
        before: Sequence[str],
    ) -> bytes:
        """Return a part of the shards of the corpus with this number, as `load_part` reads it.

        `before` are the sources before the first, as many as `data.context` says.
        """
        data, corpus = self.run.data, self.run.data.corpora[number - 1]
        files, skipped = side_files(*corpus.files), SkippedPairs()
        units = map(Unit, range(first_line, first_line + len(sources)), sources, targets)
        valid = select_valid_units(units, files, data.max_characters, skipped, data.context, before)
        rows = ((unit.number, unit.source, unit.target) for unit in valid)
        rows = leave_out_dev(rows, corpus, data, self.dev, skipped, self.overlap, is_range=True)

        # What was skipped up to here is counted by the reading of the whole corpus.
        pairs = SentencePairs.from_rows(rows, files, SkippedPairs())
        tokenizer = data.tokenizer_of(corpus.languages, self.tokenizer)
        part = BytesIO()
        save_part(part, *encode_pairs_or_none(pairs, tokenizer, data.max_pieces))
        return part.getvalue()
