"""Takes a line of text apart and puts it together again: segments, tags, and text that must stay as it is."""
