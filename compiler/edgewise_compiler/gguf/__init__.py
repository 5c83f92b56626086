"""GGUF files as checkpoints: container, block types, and what their metadata means."""
