"""Programs for Metal: kernels in Metal Shading Language, and plans."""
