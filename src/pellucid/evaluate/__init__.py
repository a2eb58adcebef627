"""How good translations are, and which of two sets of them is better."""
