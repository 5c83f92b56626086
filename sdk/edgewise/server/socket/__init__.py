"""Generations over a WebSocket: many on one, resumed where a connection broke."""
