"""The 41-million-parameter checkpoint as an ONNX model in 4 bits, as transformers.js runs it.

    python bench/web/export_peer.py CHECKPOINT PEER

Needs the packages onnxruntime-genai, onnx, onnx-ir, torch and transformers, in an environment of
their own. Writes PEER/models/small.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

TEXTS = ("config.json", "tokenizer.json", "tokenizer_config.json")
BUILDER = "onnxruntime_genai.models.builder"
# Software adapters have no float16, so inputs, outputs and pages are float32.
OPTIONS = ("-p", "int4", "-e", "webgpu", "--extra_options", "use_webgpu_fp32=1")


def main(checkpoint: Path, peer: Path) -> None:
    """Export, and lay out as transformers.js looks for it."""
    out = peer / "models/small"
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    for name in TEXTS:
        shutil.copy(checkpoint / name, out / name)
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", BUILDER, "-i", str(checkpoint), "-o", made, "-c", made]
        subprocess.run([*command, *OPTIONS], check=True)
        model = onnx.load(str(Path(made) / "model.onnx"))
    head_dim = json.loads((checkpoint / "config.json").read_text())["head_dim"]
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            # transformers.js takes a dimension it has no number for as zero.
            if dim.dim_param == "kv_cache_dim":
                dim.dim_value = head_dim
    target = out / "onnx/model_q4.onnx"
    data = f"{target.name}_data"
    (out / "onnx" / data).unlink(missing_ok=True)
    onnx.save_model(model, str(target), save_as_external_data=True, location=data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
