"""Plan of a run before it starts: counts, a trial on this machine, and advice."""
