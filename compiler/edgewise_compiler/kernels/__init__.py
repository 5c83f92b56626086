"""Kernels as TIR functions, grouped by what they compute."""
