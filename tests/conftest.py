"""What every test shares: fixed Hypothesis profiles and a data folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# Derandomized, so that a suite that passed passes again; deadlines would measure the machine.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("full", derandomize=True, deadline=None, max_examples=2000)


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps keys, measurements and caches of the person who runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
