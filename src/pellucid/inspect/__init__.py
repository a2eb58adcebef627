"""What a model has learned, measured on the user's own text: heads, embeddings, positions, alignments, layers."""
