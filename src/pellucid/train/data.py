"""Data of a run: read from its shards if it names some, otherwise from its text in memory, with the same result."""

from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import RunConfig
from pellucid.train.initial_model import initial_tokenizer
from pellucid.train.pairs import TrainingData, encode_corpora, learn_tokenizer, read_corpus
from pellucid.train.shard_reading import read_shards


def read_data(run: RunConfig, tokenizer: Tokenizer | None = None) -> TrainingData:
    """Return the encoded pairs, the dev pairs and the tokenizer of a run.

    A run that is resumed passes its `tokenizer`; otherwise it is that of the initial model, or a new one. Raises
    ValueError for data that cannot be trained on, and for shards that are not of this run.
    """
    tokenizer = tokenizer or initial_tokenizer(run)
    return read_shards(run, tokenizer) if run.data.shards is not None else read_data_in_memory(run, tokenizer)


def read_data_in_memory(run: RunConfig, tokenizer: Tokenizer | None) -> TrainingData:
    """Return the data of a run without shards."""
    corpus = read_corpus(run.data, run.seed)
    tokenizer = tokenizer or learn_tokenizer(corpus, run)
    encoded, notes, accounts = encode_corpora(corpus, tokenizer, run)
    notes = (*corpus.notes, *tokenizer.notes, *notes)
    return TrainingData(tokenizer, encoded, corpus.dev, corpus.fingerprint, notes, accounts)
