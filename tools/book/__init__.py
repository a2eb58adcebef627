"""Extensions of Sphinx for the book: formulas without a network, checked numbers, rows of the articles, and more."""
