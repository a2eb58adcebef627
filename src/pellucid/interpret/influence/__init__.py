"""Which training pairs made a word of a translation likelier, and which spoke against it."""
