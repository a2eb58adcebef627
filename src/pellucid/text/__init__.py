"""A line of text taken apart and put together again: its parts, its tags, what must stay as it is."""
