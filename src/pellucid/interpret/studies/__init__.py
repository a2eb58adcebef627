"""Studies of a trained model on the user's own text: heads, embeddings, positions, alignments, layers."""
