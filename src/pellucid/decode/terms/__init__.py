"""Required terms, protected text and forced prefixes: all that a translation must contain."""
