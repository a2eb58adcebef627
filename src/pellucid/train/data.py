"""The data of a run: from its shards if it names some, else from its text in memory; both give the same."""

from dataclasses import replace

from pellucid.data.bpe_dropout import with_bpe_dropout
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import RunConfig
from pellucid.train.initial_model import initial_tokenizer
from pellucid.train.pairs import TrainingData, encode_corpora, learn_tokenizer, read_corpus
from pellucid.train.shard_reading import read_shards


def read_data(run: RunConfig, tokenizer: Tokenizer | None = None) -> TrainingData:
    """Pairs as ids, dev pairs, and the tokenizer: `tokenizer` if it is given, for a run that goes on; else that of the
    model the run starts from, or a new one.

    Raises ValueError for data that cannot be trained on, and for shards that are not of this run.
    """
    tokenizer = tokenizer or initial_tokenizer(run)
    data = read_shards(run, tokenizer) if run.data.shards is not None else read_data_in_memory(run, tokenizer)
    if share := run.data.bpe_dropout:
        data = replace(data, encoded=with_bpe_dropout(data.encoded, data.tokenizer, share, run.data.max_pieces))
    return data


def read_data_in_memory(run: RunConfig, tokenizer: Tokenizer | None) -> TrainingData:
    """The data of a run without shards."""
    corpus = read_corpus(run.data, run.seed)
    tokenizer = tokenizer or learn_tokenizer(corpus, run)
    encoded, notes, accounts = encode_corpora(corpus, tokenizer, run)
    notes = (*corpus.notes, *tokenizer.notes, *notes)
    return TrainingData(tokenizer, encoded, corpus.dev, corpus.fingerprint, notes, accounts)
