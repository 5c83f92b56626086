"""Bundles and plans: what they say, and reading them from files that nobody vouches for."""
