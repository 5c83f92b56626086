"""KV memory in pages: which page belongs to whom."""
