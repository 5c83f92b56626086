"""Embeddings, norms and rotations on GPUs."""
