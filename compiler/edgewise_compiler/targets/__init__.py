"""What each target has: features, limits, code generation."""
