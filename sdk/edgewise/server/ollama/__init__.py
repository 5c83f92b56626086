"""Ollama's API: chat, generate, what models there are, and fetching more from the hub."""
