"""Shaders that would end the process, or fill its memory, are refused before they are compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise_runtime.devices.wgpu import wgsl
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.devices.wgpu.wgsl import check_shader
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.targets import TARGETS
from tests.gpu import device as gpu

DEEP = 3000


def main(body: str, declared: str = "") -> str:
    return (
        "@group(0) @binding(0) var<storage, read_write> b : array<f32>;\n"
        f"{declared}@compute @workgroup_size(1)\n"
        f"fn main(@builtin(local_invocation_id) t : vec3<u32>) {{\n{body}\n}}\n"
    )


def nested(opening: str, inside: str, closing: str, count: int = DEEP) -> str:
    return opening * count + inside + closing * count


HOSTILE = {
    "brackets": (main(f"b[0] = {nested('(', '1.0', ')')};"), "nests 3,001 brackets"),
    "calls": (main(f"b[0] = {nested('abs(', 'b[1]', ')')};"), "nests 3,002 brackets"),
    "indices": (main(f"b[0] = {nested('b[u32(', '0', ')]')};"), "nests 6,001 brackets"),
    "vectors": (main(f"let x = {nested('vec4<f32>(', '1.0', ')')};"), "nests 3,001 brackets"),
    "blocks": (main(nested("{", "", "}", 30)), "nests 31 blocks"),
    "loops in loops": (
        main(nested("for (var i : i32 = 0i; i < 2i; i++) {", "", "}", 30)),
        "nests 31 blocks",
    ),
    "loops after loops": (main("for (;;) { break; }" * 65), "65 times 'for', more than 64"),
    "types in types": (main(f"var x : {nested('vec2<', 'f32', '>')};"), "a statement of 18,0"),
    "arrays in arrays": (
        main("var x : array<array<f32, 60000>, 60000>;"),
        "not variables of numbers",
    ),
    "pointers": (main("", f"alias P = {nested('ptr<function,', 'f32', '>')};"), "'alias' in it"),
    "a long sum": (main(f"b[0] = b[1]{'+b[1]' * DEEP};"), "a statement of 15,013 bytes"),
    "a chain of signs": (main(f"let x : bool = {'!' * DEEP}true;"), "a statement of 3,0"),
    "a chain of members": (
        main(f"b[0] = vec4<f32>(1.0){'.xyzw' * DEEP}.x;"),
        "a statement of 15,0",
    ),
    "a chain of choices": (main("if (t.x > 0u) {}" + " else if (t.x > 1u) {}"), "'else if' in it"),
    "structures": (
        main("", "struct A { a : f32 }\nstruct B { a : A }\n"),
        "2 times 'struct', more than 1",
    ),
    "functions": (main("f();", "fn f() {}\n"), "2 times 'fn', more than 1"),
    "constants": (main("", "const a = array<i32, 100000000>();"), "'const' in it"),
    "comments": (main(nested("/*", "", "*/")), "'/\\*' in it"),
    "endless loops": (main("loop { }"), "'loop' in it"),
    "choices of one of many": (main("switch (t.x) { default: {} }"), "'switch' in it"),
    "memory of a workgroup": (
        main("w[t.x] = 1.0;", "var<workgroup> w : array<f32, 30000>;\n"),
        "arrays of 30,000 elements",
    ),
    "memory of a thread": (
        main("var p : array<f32, 30000>; p[t.x] = 1.0;"),
        "arrays of 30,000 elements",
    ),
    "an array of the whole program": (
        main("p[t.x] = 1.0;", "var<private> p : array<f32, 30>;\n"),
        "not variables of numbers",
    ),
    "copies of an array": (
        main("var p : array<f32, 20>; var q : array<f32, 20>;" + "q = (p); p = q;" * 9),
        "copies the array 'p'",
    ),
    "words of other alphabets": (main("let \N{GRINNING FACE} = 1;"), "is no plain text"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_shader_is_refused_for(what: str) -> None:
    text, said = HOSTILE[what]
    with pytest.raises(BundleError, match=said) as error:
        check_shader("a.wgsl", text.encode())
    assert error.value.code == "bundle.shader"


def test_a_hostile_shader_is_refused_when_its_program_is_loaded(
    make_webgpu: Callable[..., Bundle],
) -> None:
    text = main(f"b[0] = {nested('(', '1.0', ')')};")
    bundle = make_webgpu(scale=text)
    with pytest.raises(BundleError, match="nests 3,001 brackets"):
        WgpuDevice().load(bundle, load_symbols={"pages": 4})


ALLOWED = {
    "brackets": main(f"b[0] = {nested('(', '1.0', ')', wgsl.MAX_NESTING - 1)};"),
    "calls": main(f"b[0] = {nested('sqrt(', 'b[t.x]', ')', wgsl.MAX_NESTING - 2)};"),
    "signs": main(f"let x : bool = {'!' * (wgsl.MAX_STATEMENT - 50)}true;"),
    "members": main(f"b[0] = vec4<f32>(1.0){'.xyzw' * (wgsl.MAX_STATEMENT // 5 - 8)}.x;"),
    "blocks": main(
        nested("if (t.x > 0u) {", "b[0] = 1.0;", "}", wgsl.MAX_BLOCKS - 1),
    ),
    "loops": main(
        nested("for (var i : i32 = 0i; i < 9i; i++) {", "", "}", wgsl.MAX_BLOCKS - 1),
    ),
    "a text": main("b[t.x] = b[t.x] * 1.5;\n" * (TARGETS["webgpu"].largest_file // 24)),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_wgpu_survives_all_that_is_allowed_of(what: str) -> None:
    text = check_shader("a.wgsl", ALLOWED[what].encode())
    stage = {"module": gpu().create_shader_module(code=text), "entry_point": "main"}
    assert gpu().create_compute_pipeline(layout="auto", compute=stage)
