"""Serving the chat app and bundles to browsers over HTTP."""
