"""What can be said of a deployment, and what is refused before anything is deployed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewise.ray.options import ServeOptions
from edgewise.ray.trusting import vouched
from edgewise_runtime.errors import EdgewiseError, InputError

BAD: list[tuple[str, Any]] = [
    ("replicas", 0),
    ("replicas", True),
    ("most_replicas", 0),
    ("threads", 0),
    ("context", 1),
    ("full", 0),
    ("full", float("nan")),
    ("kv_full", 1.5),
    ("up_s", -1),
    ("cpus", "2"),
    ("routing", "random"),
    ("busier", 0.5),
    ("pages", 0),
    ("doors", 0),
    ("drain_s", 1e9),
    ("trust", 1),
    ("hosts", "example.org"),
    ("vouched", [1]),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name) as error:
        ServeOptions(**{name: value})
    assert error.value.code == "input.option"


def test_fewer_replicas_at_most_than_at_least_are_refused() -> None:
    with pytest.raises(InputError, match="most_replicas is 2; it must be at least 3"):
        ServeOptions(replicas=3, most_replicas=2)


def test_a_configuration_file_says_the_same() -> None:
    given = {"replicas": 2, "hosts": ["models.example"], "settings": {"max_waiting": 8}}
    assert ServeOptions.of(given) == ServeOptions(
        replicas=2, hosts=("models.example",), settings={"max_waiting": 8}
    )
    with pytest.raises(InputError, match="There is no option 'replica'"):
        ServeOptions.of({"replica": 2})


def test_replicas_have_the_threads_that_ray_counts_them_with() -> None:
    assert [ServeOptions(cpus=n).kernel_threads for n in (0, 0.5, 4)] == [1, 1, 4]
    assert ServeOptions(cpus=4, threads=2).kernel_threads == 2
    assert not ServeOptions(replicas=2).scales
    assert ServeOptions(most_replicas=2).scales


def test_a_key_is_no_part_of_what_is_shown() -> None:
    assert "secret" not in repr(ServeOptions(api_key="secret-secret-secret"))


def test_nobody_vouches_for_what_is_no_bundle_here(tmp_path: Path) -> None:
    assert vouched("hf:org/model") == vouched(tmp_path / "none") == ()


def test_without_ray_the_package_says_what_to_install() -> None:
    """In a process that finds no package of that name."""
    code = (
        "import importlib.metadata as m\n"
        "found = m.version\n"
        "def version(name):\n"
        "    if name == 'ray': raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = version\n"
        "import edgewise\n"
        "import edgewise.server.app\n"
        "from edgewise import EdgewiseError\n"
        "try:\n"
        "    import edgewise.ray\n"
        "except EdgewiseError as error:\n"
        "    print(error.code, error.remedy)\n"
        "import sys\n"
        "print('ray' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, imported = done.stdout.splitlines()
    assert said.startswith("unsupported.ray Install it: pip install 'ray[data,serve]>=2.60")
    assert imported == "False"


@pytest.mark.parametrize(
    ("model", "code"),
    [("no such bundle", "input.model"), ("", "input.model"), (5, "input.model")],
)
def test_what_is_no_model_is_refused_where_it_is_deployed(model: Any, code: str) -> None:
    import edgewise.ray

    with pytest.raises(EdgewiseError) as error:
        edgewise.ray.build({"model": model})
    assert error.value.code == code
