"""Kernels for GPUs: what one thread does, in words that every GPU language has."""
