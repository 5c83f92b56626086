"""The wheel of edgewise-client holds its sources and asks for nothing; the recipe speaks of it."""

from __future__ import annotations

import ast
import re
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from edgewise_runtime.installed import VERSION
from tests.wheels import ROOT, build

CLIENT = ROOT / "clients/pyodide"
PACKAGE = CLIENT / "edgewise_client"
IN_JAVASCRIPT = {"js", "pyodide"}


def test_it_holds_every_source_and_asks_for_nothing(tmp_path: Path) -> None:
    wheel, _ = build("wheel", CLIENT, tmp_path)
    assert wheel.name == f"edgewise_client-{VERSION}-py3-none-any.whl"
    packed = ZipFile(wheel)
    sources = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    names = [name for name in packed.namelist() if ".dist-info/" not in name]
    assert set(names) == {f"edgewise_client/{name}" for name in sources}
    assert "py.typed" in sources
    metadata = message_from_bytes(packed.read(f"edgewise_client-{VERSION}.dist-info/METADATA"))
    assert metadata.get_all("Requires-Dist") is None
    assert metadata["Requires-Python"] == ">=3.11"


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("*.py")), ids=lambda file: file.name)
def test_it_imports_itself_and_the_standard_library(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            top = module.partition(".")[0]
            assert top == "edgewise_client" or top in sys.stdlib_module_names, module


def test_what_it_asks_of_javascript_it_imports_late() -> None:
    text = "".join(file.read_text("utf-8") for file in PACKAGE.glob("*.py"))
    found = re.findall(r'import_module\("(\w+)', text)
    assert set(found) == IN_JAVASCRIPT


def test_the_recipe_is_of_this_version() -> None:
    recipe = (CLIENT / "packages/edgewise-client/meta.yaml").read_text("utf-8")
    assert re.findall(r"(?m)^  version: (.*)$", recipe) == [VERSION]
    (path,) = re.findall(r"(?m)^  path: (.*)$", recipe)
    folder = (CLIENT / "packages/edgewise-client" / path).resolve()
    assert (folder / "pyproject.toml").is_file()
