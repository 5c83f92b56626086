"""The text that Prometheus reads, for any label and any number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.operations.exposition import Exposed, Sample, bucket_samples, text_of
from tests.sdk.server.operations.prometheus import read


def gauge(value: float, about: str = "Some.", **labels: str) -> str:
    return text_of([Exposed("a:b", "gauge", about, (Sample(value, labels),))])


@given(st.text())
def test_any_text_may_be_the_value_of_a_label(text: str) -> None:
    family = read(gauge(1, model_name=text, other='"'))["a:b"]
    assert list(family.samples) == [("a:b", (("model_name", text), ("other", '"')))]


@given(st.text())
def test_any_text_may_be_the_help(text: str) -> None:
    assert read(gauge(1, about=text))["a:b"].of() == [1]


@given(st.one_of(st.floats(allow_nan=False), st.integers(-(2**70), 2**70)))
def test_any_number_is_read_as_it_was(value: float) -> None:
    assert read(gauge(value))["a:b"].of() == [float(value)]


def test_what_is_no_number_is_nan() -> None:
    assert math.isnan(read(gauge(math.nan))["a:b"].of()[0])


def test_a_family_without_samples_has_no_line() -> None:
    assert text_of([Exposed("a", "counter", "Some.", ())]) == ""


def test_a_histogram_has_buckets_sum_and_count() -> None:
    samples = tuple(bucket_samples({"0.5": 1, "+Inf": 3}, 7.25, {"model_name": "m"}))
    assert text_of([Exposed("h", "histogram", "Some.", samples)]) == (
        "# HELP h Some.\n"
        "# TYPE h histogram\n"
        'h_bucket{model_name="m",le="0.5"} 1\n'
        'h_bucket{model_name="m",le="+Inf"} 3\n'
        'h_sum{model_name="m"} 7.25\n'
        'h_count{model_name="m"} 3\n'
    )


@pytest.mark.parametrize(
    "page",
    [
        "# TYPE a gauge\na 1\n",
        "# HELP a .\n# TYPE a gauge\na 1\n# HELP a .\n# TYPE a gauge\na 2\n",
        "# HELP a .\n# TYPE a gauge\na 1",
        '# HELP a .\n# TYPE a gauge\na{x="\\q"} 1\n',
        "# HELP a .\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a .\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
    ],
)
def test_the_reader_of_these_tests_refuses_what_scrapers_may(page: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        read(page)
