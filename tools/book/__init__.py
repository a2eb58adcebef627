"""What the book needs besides Sphinx: formulas without a network, numbers that come out, rows of the articles."""
