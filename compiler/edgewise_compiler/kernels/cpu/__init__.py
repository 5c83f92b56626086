"""Kernels for CPUs, written with vectors of 16 lanes."""
