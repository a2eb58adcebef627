"""What keeps a trace honest: how each tensor is made, everything computed again, and statements that can fail."""
