"""Packs: KV pages of prompts, computed once and shipped with a bundle."""
