"""What a model's generation_config.json says of how its tokens are chosen: obeyed, or named.

As transformers reads it, but for a file that does not say `do_sample`: docs/guide.md has the table.
`web/engine/model-defaults.ts` reads it alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from edgewise_runtime.engine.sampling import MAX_BIAS, SamplingParams
from edgewise_runtime.errors import BundleError, InputError
from edgewise_runtime.format.abi import MAX_BIASES
from edgewise_runtime.format.reading import shorten

MAX_LENGTH = "max_length"
"""The default that is no option: tokens of prompt and answer for who does not say `max_tokens`."""

_NAMES = {
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "stop_strings": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
"""Our names of what such a file may set."""
_SAMPLING = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}
"""What transformers takes for what a file leaves out that says `do_sample`."""
_BANS = ("suppress_tokens", "bad_words_ids")
_OTHERWISE_READ = {*_NAMES, *_BANS, MAX_LENGTH, "do_sample"}

_NO_MATTER = frozenset(
    "_commit_hash _from_model_config assistant_confidence_threshold assistant_early_exit "
    "assistant_ensemble_weight assistant_lookbehind bos_token_id cache_config "
    "cache_implementation compile_config continuous_batching_config decoder_start_token_id "
    "disable_compile early_stopping eos_token_id is_assistant length_penalty low_memory "
    "max_cache_len max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule "
    "output_attentions output_hidden_states output_logits output_scores pad_token_id "
    "prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values renormalize_logits "
    "return_dict_in_generate speculation_type target_lookbehind transformers_version use_cache "
    "use_mtp".split()
)
"""Keys that change no token, or only where beams are searched, which is named by itself."""
_NEUTRAL: Mapping[str, Any] = {
    "diversity_penalty": 0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "guidance_scale": 1,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_return_sequences": 1,
    "typical_p": 1,
}
"""Values that ask for nothing, besides null, false and what is empty."""
_MOST_NAMED = 8


def defaults_from(
    config: Mapping[str, Any], *, vocab: int = 1 << 31, eos: Collection[int] = ()
) -> dict[str, Any]:
    """Return the defaults that a generation_config.json sets, by our names, and `max_length`.

    What the file leaves out is what transformers takes where it says `do_sample`, and otherwise
    what `SamplingParams` does. Single tokens that are not to come have a bias.

    Args:
        vocab: token ids are below this.
        eos: the model's end tokens.

    Raises BundleError ``bundle.generation_config`` when a value in the file is out of range.
    """
    given = {ours: config[key] for key, ours in _NAMES.items() if config.get(key) is not None}
    sampling = config.get("do_sample")
    found = {**(_SAMPLING if sampling is True else {}), **given}
    if sampling is False:
        found["temperature"] = 0.0
    banned, _ = _banned(config, vocab, eos)
    if banned and len(banned) <= MAX_BIASES:
        found["logit_bias"] = dict.fromkeys(banned, -MAX_BIAS)
    if "stop" in found:
        found["stop"] = _stops(found["stop"])
    try:
        SamplingParams(**found)
    except InputError as error:
        raise _unusable(error.message) from error
    length = config.get(MAX_LENGTH)
    if length is not None and "max_tokens" not in found:
        if type(length) is not int or length < 1:
            raise _unusable(f"{MAX_LENGTH} is {shorten(length)}; it must be a whole number from 1.")
        found[MAX_LENGTH] = length
    return found


def not_obeyed(
    config: Mapping[str, Any], *, vocab: int = 1 << 31, eos: Collection[int] = ()
) -> list[str]:
    """Return what a generation_config.json asks for in vain, as ``key=value``, the first few."""
    named = [
        f"{shorten(key).strip(chr(39))}={shorten(value)}"
        for key, value in config.items()
        if key not in _OTHERWISE_READ and key not in _NO_MATTER and not _neutral(key, value)
    ]
    banned, several = _banned(config, vocab, eos)
    if len(banned) > MAX_BIASES:
        named.append(f"{' and '.join(_BANS)} of {len(banned):,} tokens")
    if several:
        named.append(f"bad_words_ids of several tokens each ({several:,})")
    more = len(named) - _MOST_NAMED
    return [*named[:_MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])]


def _neutral(key: str, value: Any) -> bool:
    return value is None or value is False or value in ([], {}, "") or value == _NEUTRAL.get(key)


def _banned(config: Mapping[str, Any], vocab: int, eos: Collection[int]) -> tuple[list[int], int]:
    """Tokens that are never to come, each once, and how many words of several tokens are not."""
    suppressed, words = (config.get(key) or () for key in _BANS)
    lists = [_tokens(word, "bad_words_ids", vocab) for word in _listed(words, "bad_words_ids")]
    banned = dict.fromkeys(_tokens(suppressed, "suppress_tokens", vocab))
    # As in transformers, the end of the answer is no bad word.
    banned |= dict.fromkeys(word[0] for word in lists if len(word) == 1 and word[0] not in eos)
    return list(banned), sum(len(word) > 1 for word in lists)


def _tokens(value: Any, key: str, vocab: int) -> list[int]:
    for token in (found := _listed(value, key)):
        if type(token) is not int or not 0 <= token < vocab:
            raise _unusable(f"{key} has {shorten(token)}, which is no token id of this model.")
    return found


def _listed(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _unusable(f"{key} is {shorten(value)}; it must be a list.")
    return list(value)


def _stops(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str) else tuple(_listed(value, "stop_strings"))


def _unusable(what: str) -> BundleError:
    return BundleError(
        f"The model's generation_config.json cannot be used: {what}",
        remedy="Correct the value in the checkpoint and compile it again.",
        code="bundle.generation_config",
    )


def said_of(ignored: Iterable[str], name: str) -> str:
    """Return what is said of a model that asks for what is not obeyed."""
    return (
        f"The generation_config.json of {name} asks for what edgewise does not do: "
        f"{', '.join(ignored)}."
    )
