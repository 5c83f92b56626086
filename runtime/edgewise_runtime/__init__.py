"""Runs compiled bundles: from plans and pages to tokens."""
