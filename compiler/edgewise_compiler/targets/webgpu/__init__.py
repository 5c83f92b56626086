"""Programs for WebGPU: WGSL texts and plans."""
