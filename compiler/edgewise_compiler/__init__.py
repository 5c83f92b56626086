"""Lowers a checkpoint to a bundle with Apache TVM."""
