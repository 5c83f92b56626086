"""What lies where in the buffers that the host and compiled programs share.

Engine and drafts write them, kernels and generated host functions read them, and a bundle is only
right while all of them agree: whatever is here is part of the bundle format.

Rows of ``table`` describe sequences, rows of ``tokens``, ``positions`` and ``row_seq`` the tokens
of a step, and ``step`` says how many of each there are.
"""

from __future__ import annotations

from typing import Literal

PAGE_TOKENS = 16
"""Tokens of a KV page that kernels are compiled for. A bundle says how many its pages have; ask
`state.paged_state`."""

MAX_PAGES = 1 << 16
"""Pages of a pool, at most."""

MAX_BINDING = 1 << 32
"""Bytes of a buffer that a GPU's kernels can count elements of, at most, in 32 bits."""

GROUP = 32
"""Columns of a weight, or of activations, that share one scale."""

PANEL = 16
"""Rows of a weight that lie beside each other in the ``cpu`` layout, one for each lane."""

STEP_WIDTH = 8
"""int32 fields of ``step``; those without a name are 0."""

ROWS, SEQUENCES, LOGIT_ROWS, REACH = range(4)
"""Fields of ``step``: token rows, sequences, rows whose logits are wanted, and the most tokens a
sequence can come to have in KV within the step."""

STEP_SYMBOLS = ("n", "b", "r", "t")
"""The plans' symbols for those fields, in their order."""

TABLE_HEADER = 8
"""int32 fields of a row of ``table`` before its page ids."""

TABLES = ("table", *(f"table.{group}" for group in range(1, 8)))
"""The table of each state group, with its pages. The rows of all of them begin with the same
header: the host writes it to each, and a burst copies what it has changed in the first one."""

KV_LEN, Q_START, Q_LEN, STOP, LIMIT, COUNT, SLOT = range(7)
"""Fields of a row of ``table``: tokens in KV, the first of its token rows and how many it has, why
it has stopped (0 while it runs), the most tokens it may have in KV, how many tokens the burst has
drawn, and its row of ``counts``."""

AT_END, AT_LIMIT, AT_FAULT = 1, 2, 3
"""Why a sequence has stopped: at an end token, at its limit, where nothing could be drawn."""

RING = 64
"""Columns of ``ring``: tokens that a burst can draw, at most."""

STOP_TOKENS = 16
"""Entries of ``eos``; -1 is none."""

MAX_BIASES = 320
"""Columns of ``biases``."""

BIAS_IDS, BIAS_VALUES = range(2)
"""Rows of a sequence's ``biases``: tokens, and what is added to each, the bits of a float32."""

SAMPLING_WIDTH = 8
"""Columns of ``sampling_f`` and ``sampling_i``; those without a name are 0."""

TEMPERATURE, TOP_P, MIN_P, REPETITION, PRESENCE, FREQUENCY = range(6)
"""Columns of ``sampling_f``."""

TOP_K, SEED_LOW, SEED_HIGH, BIASES, IGNORE_EOS, SEQUENCE, MASKED = range(7)
"""Columns of ``sampling_i``. MASKED: 1 where a row draws only what its ``grammar_mask`` allows."""

MASK_BITS = 32
"""Tokens of a word of ``grammar_mask``; the first is the lowest bit."""

TOP_LOGPROBS = 20
"""The likeliest tokens whose log-probability is told."""

LOGPROBS = 1 + TOP_LOGPROBS
"""Columns of ``logprobs`` and ``logprob_ids``: the token that was drawn comes first."""

NO_TOKEN = -1
"""What stands in ``eos`` and ``logprob_ids`` where there are not so many tokens."""

NOT_FINITE = -2
"""What is drawn instead of a token where a row of logits has NaN or +infinity, or nothing above
-infinity. It is the last that its sequence draws."""

SharedBuffer = tuple[Literal["input", "output", "state"], str, tuple[int, ...]]
"""Role, dtype and shape of a buffer."""


def shared_buffers(
    *, rows: int, batch: int, pages: int, hidden: int, vocab: int, groups: int = 1
) -> dict[str, SharedBuffer]:
    """Every buffer that the host and a program share, by name, but for the pages.

    Args:
        rows: token rows of a step, at most.
        batch: sequences of a step, at most.
        pages: pages of a sequence, at most.
        hidden: width of the residual stream.
        vocab: token ids.
        groups: state groups.
    """
    table: SharedBuffer = ("input", "int32", (batch, TABLE_HEADER + pages))
    return {
        "step": ("input", "int32", (STEP_WIDTH,)),
        "tokens": ("input", "int32", (rows,)),
        # One position a token; models that rotate by several (M-RoPE) will have more columns.
        "positions": ("input", "int32", (rows, 1)),
        "row_seq": ("input", "int32", (rows,)),
        "logit_rows": ("input", "int32", (batch,)),
        **dict.fromkeys(TABLES[:groups], table),
        "ring": ("input", "int32", (batch, RING)),
        "eos": ("input", "int32", (STOP_TOKENS,)),
        "sampling_f": ("input", "float32", (batch, SAMPLING_WIDTH)),
        "sampling_i": ("input", "int32", (batch, SAMPLING_WIDTH)),
        "biases": ("input", "int32", (batch, 2, MAX_BIASES)),
        "grammar_mask": ("input", "int32", (batch, mask_words(vocab))),
        "x": ("output", "float32", (rows, hidden)),
        "logits": ("output", "float32", (batch, padded_vocab(vocab))),
        "hidden": ("output", "float32", (batch, hidden)),
        "sampled": ("output", "int32", (batch,)),
        "logprobs": ("output", "float32", (batch, LOGPROBS)),
        "logprob_ids": ("output", "int32", (batch, LOGPROBS)),
        "counts": ("state", "int32", (batch, vocab)),
    }


def padded_vocab(vocab: int) -> int:
    """Columns of ``logits``: the vocabulary rounded up to whole groups."""
    return -(-vocab // GROUP) * GROUP


def mask_words(vocab: int) -> int:
    """Words of a row of ``grammar_mask``."""
    return -(-vocab // MASK_BITS)
