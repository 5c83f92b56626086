"""Programs for CPUs: lowering, code, library."""
