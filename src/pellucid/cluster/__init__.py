"""Files too large for one machine: their parts, worked on by many processes that Ray starts, places and starts again.

What a part is, what is kept of it and when it is done is decided here; which process works on it, where, and what
happens when that process is lost is Ray's.
"""
