"""Mixtures of experts on GPUs."""
