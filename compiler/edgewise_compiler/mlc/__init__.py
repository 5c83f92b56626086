"""Folders of MLC LLM and WebLLM: what they say, their shards, and folders as they want them."""
