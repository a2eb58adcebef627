"""The data of a run: from its shards if it names some, else from its text in memory; both give the same."""

from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import RunConfig
from pellucid.train.pairs import Data, encode_all, learn_tokenizer, read_corpus
from pellucid.train.sharded import read_shards


def read_data(run: RunConfig, tokenizer: Tokenizer | None = None) -> Data:
    """Pairs as ids, dev pairs, and the tokenizer: `tokenizer` if it is given, for a run that goes on, or a new one.

    Raises ValueError for data that cannot be trained on, and for shards that are not of this run.
    """
    if run.data.shards is not None:
        return read_shards(run, tokenizer)
    corpus = read_corpus(run.data, run.seed)
    tokenizer = tokenizer or learn_tokenizer(corpus, run)
    encoded, notes = encode_all(corpus.train, tokenizer, run)
    return Data(tokenizer, encoded, corpus.dev, corpus.fingerprint, (*corpus.notes, *tokenizer.notes, *notes))
