"""Folders whose weights others have quantized: AWQ, GPTQ, compressed-tensors, a file each."""
