"""Paged attention: one query token per sequence (decode) or chunks of a prompt (prefill)."""
