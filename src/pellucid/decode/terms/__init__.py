"""Parts that only a search with terms, protected text or forced prefixes needs: other searches import none of it."""
