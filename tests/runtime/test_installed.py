"""What is installed, and what is said of a package that is not."""

from __future__ import annotations

import shlex

import pytest

from edgewise_runtime import installed
from edgewise_runtime.errors import CompileError, EdgewiseError
from edgewise_runtime.installed import FFI, TVM, WGPU, Package, need

ABSENT = Package("edgewise-absent", ">=1,<2", "Baking bread", (EdgewiseError, "bread"))


@pytest.mark.parametrize("package", [TVM, WGPU])
def test_a_package_that_is_there_is_not_asked_for(package: Package) -> None:
    need(package)


def test_a_missing_package_is_named_with_a_command_for_the_shell() -> None:
    with pytest.raises(EdgewiseError, match="Baking bread needs the package edgewise-absent") as e:
        need(ABSENT)
    assert e.value.code == "bread"
    assert e.value.remedy.endswith("pip install 'edgewise-absent>=1,<2'")
    assert shlex.split(ABSENT.install) == ["pip", "install", ABSENT.requirement]


def test_another_version_than_the_exact_one_is_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda name: "0.26.0")
    with pytest.raises(CompileError, match=r"apache-tvm 0\.27\.0\.post1, and 0\.26\.0 is") as error:
        need(TVM)
    assert error.value.code == "compile.tvm"
    need(WGPU)


def test_this_distribution_and_what_it_requires_are_found() -> None:
    assert installed.distributions() == ["edgewise"]
    required = installed.requirements()
    assert TVM.requirement in required
    assert not any(line.startswith("pytest") for line in required)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rich<16,>=13.7", ("rich", "<16,>=13.7")),
        ("apache-tvm-ffi==0.1.14.post1", ("apache-tvm-ffi", "==0.1.14.post1")),
        ("tokenizers >=0.21; python_version > '3'", ("tokenizers", " >=0.21")),
        ("numpy", ("numpy", "")),
    ],
)
def test_a_requirement_is_a_package_and_its_versions(line: str, expected: tuple[str, str]) -> None:
    package = installed.required(line)
    assert (package.name, package.versions) == expected
    assert package.purpose == (FFI.purpose if package.name == FFI.name else "edgewise")
