"""Linears on GPUs."""
