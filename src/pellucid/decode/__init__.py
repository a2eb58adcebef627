"""Translation: greedy search, beam search and sampling over any step function, and the translator on top."""
