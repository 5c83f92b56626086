"""Readers of checkpoint weights: one file per format, one interface."""
