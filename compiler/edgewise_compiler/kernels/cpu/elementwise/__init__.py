"""Kernels that touch each row once: embedding, norms, rotations, activation quantization."""
