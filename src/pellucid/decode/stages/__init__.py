"""The stages of a translation: each stands around a search, and may call it never, once or again."""
