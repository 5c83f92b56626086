"""Divergence, losses and the likeliest token, from logits."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.divergence import divergence, losses, perplexity, same_top1


def test_the_divergence_is_that_of_the_distributions_in_nats() -> None:
    p, q = np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 0.25, 0.5]])
    expected = 0.5 * np.log(2.0) + 0.25 * np.log(0.5)
    # Logits mean the same whatever is added to a row.
    found = divergence(np.log(p).astype("float32") + 100, np.log(q).astype("float32") - 7)
    assert found == pytest.approx([expected], abs=1e-5)
    assert divergence(np.log(p), np.log(p)) == pytest.approx([0.0], abs=1e-12)


def test_the_mean_is_taken_over_the_first_of_both() -> None:
    p, q = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    there = divergence(np.log(p), np.log(q))
    assert there == pytest.approx([0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)])
    assert divergence(np.log(q), np.log(p)) != pytest.approx(there, rel=0.1)


def test_rows_are_computed_by_themselves_however_many_there_are() -> None:
    logits = np.random.default_rng(1).normal(scale=4, size=(2, 75, 50)).astype("float32")
    targets = np.arange(75) % 50
    together = divergence(*logits), losses(logits[0], targets)
    alone = [
        (divergence(a[None], b[None])[0], losses(a[None], t[None])[0])
        for a, b, t in zip(*logits, targets, strict=True)
    ]
    assert np.array_equal(np.transpose(together), alone)
    assert not divergence(logits[0], logits[0]).any()


def test_perplexity_is_over_the_probabilities_of_what_came() -> None:
    logits = np.log(np.array([[0.5, 0.5], [0.9, 0.1]])).astype("float32")
    nats = losses(logits, np.array([0, 1]))
    assert np.exp(-nats) == pytest.approx([0.5, 0.1])
    assert perplexity(nats) == pytest.approx((2 * 10) ** 0.5)


def test_of_equals_the_lowest_id_is_the_likeliest() -> None:
    a = np.array([[1, 3, 3], [1, 2, 3]], "float32")
    b = np.array([[1, 3, 2], [3, 2, 3]], "float32")
    assert same_top1(a, b).tolist() == [True, False]
