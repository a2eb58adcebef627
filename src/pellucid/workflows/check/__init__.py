"""The doctor of parallel text: says what is wrong with a corpus, where, how often, and what to do about it."""
