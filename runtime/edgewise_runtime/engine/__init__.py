"""Sequences in, tokens out: sampling parameters, stops, batches and the generation loop."""
