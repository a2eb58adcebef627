"""Required terms, protected text and forced prefixes; other searches import none of it."""
