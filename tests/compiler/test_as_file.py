"""What a quantized file holds is what its bundle holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from numpy.typing import NDArray

from edgewise import Engine
from edgewise_compiler.as_file import file_codes, file_recipe, is_quantized
from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.fingerprint import weights_fingerprint
from edgewise_compiler.layouts.packing import layout_tensors, pack_weights
from edgewise_compiler.layouts.schemes import Schemes, linear_schemes
from edgewise_compiler.layouts.table import LAYOUTS
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import Recipe, find_preset
from edgewise_runtime.errors import CheckpointError, InputError
from tests.compiler.gguf.writing import gguf_name, write_gguf
from tests.compiler.layouts.linears import Arrays, ordered_rows, rows_of
from tests.compiler.layouts.test_packing import unpacked

CASE = "llama-gqa2-tied-linear"
HEAD_DIM = 32
VALUES = {
    "q4": np.arange(-8.0, 8.0),
    "q4a": np.arange(16.0),
    "q5": np.arange(-16.0, 16.0),
    "q6": np.arange(-32.0, 32.0),
    "q8": np.arange(-128.0, 128.0),
    "mxfp4": 2 * np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]),
}
"""What each code of a scheme stands for, before the scale, and before a minimum is taken off."""

MIXED = {"attn_v": "Q8_0", "ffn_down": "F16", "token_embd": "Q5_0", "ffn_gate": "Q5_1"}
"""Where a file of Q4_0 has other types."""

Written = Callable[..., Path]


@pytest.fixture
def written(checkpoints: Callable[[str], Path], tmp_path: Path) -> Written:
    """``written(kind, **kinds)``: the case as a GGUF file of a type, and others in places."""
    return lambda kind, **kinds: write_gguf(
        checkpoints(CASE), tmp_path / f"{kind}.gguf", kind=kind, kinds=kinds
    )


def linears(checkpoint: Checkpoint) -> list[LinearSpec]:
    params = checkpoint.family.params(checkpoint.model)
    return [param for param in params if isinstance(param, LinearSpec)]


def schemes_of(checkpoint: Checkpoint, recipe: Recipe) -> Schemes:
    return linear_schemes(recipe, checkpoint.family.params(checkpoint.model))


def stored_schemes(path: Path) -> dict[str, str]:
    """The scheme of each kind of linear: their names without the layers."""
    with open_checkpoint(path) as checkpoint:
        schemes = schemes_of(checkpoint, file_recipe(checkpoint))
    return {name.rpartition(".")[2]: scheme.name for name, scheme in schemes.items()}


def packed(checkpoint: Checkpoint, schemes: Schemes, folder: Path) -> Mapping[str, Arrays]:
    """The tensors of a bundle of the file as it is, by layout."""
    params = checkpoint.family.params(checkpoint.model)
    entries = pack_weights(
        folder,
        {layout: layout_tensors(layout, schemes, params, 8) for layout in LAYOUTS.values()},
        schemes,
        params,
        checkpoint.weights,
        lambda done, total: None,
        file_codes(checkpoint, schemes),
    )
    return {
        layout: {
            name: np.fromfile(
                folder / entry.file, entry.dtype, int(np.prod(entry.shape)), offset=entry.offset
            ).reshape(entry.shape)
            for name, entry in made.items()
        }
        for layout, made in entries.items()
    }


def codes_and_numbers(
    layout: str, arrays: Arrays, name: str, scheme: str
) -> tuple[NDArray[np.uint32], NDArray[np.float16]]:
    """Codes of a packed linear, row by row, and what each group has, scale first: float16
    ``[rows, groups, numbers]``, as docs/bundle-format.md has them."""
    (scales,) = [a for key, a in arrays.items() if key.startswith(name) and key.endswith("scale")]
    words, bits = arrays[f"{name}.weight"], len(VALUES[scheme]).bit_length() - 1
    if layout == "cpu":
        words, scales = rows_of(words), rows_of(scales)
    codes = unpacked(np.ascontiguousarray(words), bits)
    numbers = np.ascontiguousarray(scales).view(np.float16)
    return codes, numbers.reshape(len(codes), codes.shape[1] // 32, -1)


def q4_0(file: GGUFReader, name: str) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Codes and scales of a checkpoint's tensor, out of the bytes of a file of llama's."""
    (tensor,) = [t for t in file.tensors if t.name == gguf_name(name)]
    blocks = np.array(tensor.data).reshape(tensor.data.shape[0], -1, 18)
    low, high = blocks[:, :, 2:] & 15, blocks[:, :, 2:] >> 4
    codes = np.concatenate([low, high], axis=2).reshape(len(blocks), -1)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)[:, :, 0]
    if "q_proj" in name or "k_proj" in name:
        order = np.arange(len(codes)).reshape(-1, HEAD_DIM // 2, 2).swapaxes(1, 2).ravel()
        codes, scales = codes[order], scales[order]
    return codes, scales


def test_codes_and_scales_of_q4_0_lie_in_the_bundle_unchanged(
    written: Written, tmp_path: Path
) -> None:
    path = written("Q4_0")
    with open_checkpoint(path) as checkpoint:
        schemes = schemes_of(checkpoint, file_recipe(checkpoint))
        assert {scheme.name for scheme in schemes.values()} == {"q4"}
        tensors, params = packed(checkpoint, schemes, tmp_path), linears(checkpoint)
    file, signs = GGUFReader(path), set[float]()
    for spec in params:
        own = {name: q4_0(file, name) for name in spec.sources}
        codes = ordered_rows(spec, {n: c for n, (c, _) in own.items()}, spec.sources)
        scales = ordered_rows(spec, {n: s for n, (_, s) in own.items()}, spec.sources)
        signs |= set(np.sign(scales).ravel().tolist())
        rows = {name: np.ones(len(found), bool) for name, (found, _) in own.items()}
        real = ordered_rows(spec, rows, spec.sources)
        for layout, arrays in tensors.items():
            found, numbers = codes_and_numbers(layout, arrays, spec.name, "q4")
            np.testing.assert_array_equal(found[real], codes[real])
            bits = numbers[:, :, 0].view(np.uint16)
            np.testing.assert_array_equal(bits, scales.view(np.uint16))
    assert {-1.0, 1.0} <= signs


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("Q4_0", "q4"), ("Q4_1", "q4a"), ("Q5_0", "q5"), ("Q8_0", "q8"), ("MXFP4", "mxfp4")],
)
def test_weights_of_a_bundle_are_the_floats_of_the_file_bit_for_bit(
    kind: str, scheme: str, written: Written, tmp_path: Path
) -> None:
    with open_checkpoint(written(kind)) as checkpoint:
        schemes = schemes_of(checkpoint, file_recipe(checkpoint))
        assert {found.name for found in schemes.values()} == {scheme}
        assert_weights(checkpoint, schemes, packed(checkpoint, schemes, tmp_path), {})


def assert_weights(
    checkpoint: Checkpoint,
    schemes: Schemes,
    tensors: Mapping[str, Arrays],
    steps: Mapping[str, float],
) -> None:
    """Those of the file; ``steps`` has modules that may be so many steps of a group away."""
    for spec in linears(checkpoint):
        scheme = schemes[spec.name].name
        floats = {name: checkpoint.weights.read(name) for name in spec.sources}
        far = {
            name: np.full_like(values, steps.get(name.split(".")[-2], 0.0))
            for name, values in floats.items()
        }
        expected = ordered_rows(spec, floats, spec.sources)
        allowed = ordered_rows(spec, far, spec.sources)
        for layout, arrays in tensors.items():
            codes, numbers = codes_and_numbers(layout, arrays, spec.name, scheme)
            step, *minimum = np.moveaxis(numbers.astype(np.float32).repeat(32, axis=1), 2, 0)
            found = VALUES[scheme].astype(np.float32)[codes] * step
            found = found - minimum[0] if minimum else found
            assert (np.abs(found - expected) <= allowed * np.abs(step)).all()


def test_a_file_of_several_types_keeps_each_that_it_can(written: Written, tmp_path: Path) -> None:
    with open_checkpoint(written("Q4_0", **MIXED)) as checkpoint:
        recipe = file_recipe(checkpoint)
        schemes = schemes_of(checkpoint, recipe)
        assert (recipe.name, recipe.default.name) == ("as-file", "q8")
        assert {name: scheme.name for name, scheme in schemes.items() if "1" not in name} == {
            "embed": "q5",
            "layers.0.qkv": "q8",  # v has 8 bits, so q and k get them, too
            "layers.0.o": "q4",
            "layers.0.gate_up": "q6",  # up is Q4_0, whose integers are the same in 6 bits
            "layers.0.down": "q8",  # floats beside integers
        }
        own = file_codes(checkpoint, schemes)
        assert {name.rpartition("_proj")[0].rpartition(".")[2] for name in own} == {
            "", "q", "k", "v", "o", "up"
        }  # fmt: skip
        tensors = packed(checkpoint, schemes, tmp_path)
        # Half a step and the rounding of it; with 6 bits one side reaches a step less far.
        assert_weights(checkpoint, schemes, tensors, {"down_proj": 0.51, "gate_proj": 1.01})


def test_floats_stay_floats_where_nothing_is_quantized(written: Written) -> None:
    path = written("F16", ffn_down="BF16", attn_v="F32")
    with open_checkpoint(path) as checkpoint:
        assert not is_quantized(checkpoint)
    assert stored_schemes(path) == {
        "embed": "f16", "qkv": "f32", "o": "f16", "gate_up": "f16", "down": "f32"
    }  # fmt: skip


def test_a_folder_can_be_kept_as_it_is(checkpoints: Callable[[str], Path]) -> None:
    assert set(stored_schemes(checkpoints("llama-d80-yarn")).values()) == {"f16"}
    assert set(stored_schemes(checkpoints(CASE)).values()) == {"f32"}


def test_weights_that_are_kept_are_not_those_that_are_quantized_again(written: Written) -> None:
    with open_checkpoint(written("Q4_0")) as checkpoint:
        kept = schemes_of(checkpoint, file_recipe(checkpoint))
        again = schemes_of(checkpoint, find_preset("q4"))
        own = file_codes(checkpoint, kept)
        ids = {
            weights_fingerprint(checkpoint, kept, b"", own),
            weights_fingerprint(checkpoint, again),
            weights_fingerprint(checkpoint, kept, b"", list(own)[1:]),
        }
    assert len(ids) == 3


def test_a_bundle_of_the_file_as_it_is_computes_nearly_what_its_floats_do(
    written: Written, tmp_path: Path
) -> None:
    path, bounds = written("Q4_0", ffn_up="Q8_0"), {"prefill_chunk": 128, "targets": ("cpu",)}
    kept = compile_model(path, tmp_path / "kept", **bounds)
    exact = compile_model(path, tmp_path / "exact", quant="f32", **bounds)
    with Engine(kept) as ours, Engine(exact) as theirs:
        tokens = list(range(2, 60))
        found, expected = ours.score(tokens), theirs.score(tokens)
    # Activations in 8 bits, and the gate's four bits as eight.
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.035 * expected.std()


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf])
def test_a_scale_that_is_no_number_is_refused(
    scale: float, written: Written, tmp_path: Path
) -> None:
    path = Path(shutil.copy(written("Q4_0"), tmp_path / "damaged.gguf"))
    (tensor,) = [t for t in GGUFReader(path).tensors if t.name == "blk.0.ffn_up.weight"]
    raw = bytearray(path.read_bytes())
    place = int(tensor.data_offset) + 18 * (3 * 7 + 1)  # three blocks of 32 columns a row
    raw[place : place + 2] = np.float16(scale).tobytes()
    path.write_bytes(raw)
    with (
        pytest.raises(CheckpointError, match=r"blk\.0\.ffn_up\.weight.*\[7, 32\]") as caught,
        open_checkpoint(path) as checkpoint,
    ):
        packed(checkpoint, schemes_of(checkpoint, file_recipe(checkpoint)), tmp_path)
    assert caught.value.code == "checkpoint.weights"


def test_codes_that_a_file_brings_cannot_be_calibrated(written: Written, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Q4_0\.gguf brings its codes") as caught:
        compile_model(written("Q4_0"), tmp_path / "bundle", calibrate=True)
    assert "--quant " in caught.value.remedy


def test_matrices_with_padded_heads_are_rounded_again_in_eight_bits(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    path = write_gguf(
        checkpoints("qwen3-d24-odd"),
        tmp_path / "odd.gguf",
        kind="Q4_0",
        kinds={"attn_output": "F16"},
    )
    again = {"qkv": "q8", "o": "q8"}
    kept = {"embed": "q4", "gate_up": "q4", "down": "q4", "lm_head": "q4"}
    assert stored_schemes(path) == {**again, **kept}
