"""Batch inference with Ray Data: rows and files in, rows and folders of answers out."""
