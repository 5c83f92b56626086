"""The tokenizer of the demo model: byte-level BPE, trained on generated dialogues."""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from . import DOCUMENT_END, TURN_END, TURN_START, Dialogue, generate

VOCABULARY = 4096

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(seed: int, dialogues: int) -> Tokenizer:
    """Return a tokenizer with `VOCABULARY` tokens, trained on the first dialogues of `seed`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[DOCUMENT_END, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(seed, dialogues), trainer)
    size = tokenizer.get_vocab_size()
    if size != VOCABULARY:
        raise ValueError(
            f"the tokenizer has {size} tokens instead of {VOCABULARY}: there was too little text. "
            f"Train it on more than {dialogues} dialogues."
        )
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token that has to be there."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no {token}; it was not made by train_tokenizer")
    return found


def encode(tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[list[int], list[bool]]:
    """Return a dialogue's ids, and for each whether the assistant is to produce it."""
    ids: list[int] = []
    is_answer: list[bool] = []
    for turn in dialogue.turns:
        head = tokenizer.encode(f"<|im_start|>{turn.role}\n").ids
        body = tokenizer.encode(f"{turn.text}<|im_end|>").ids
        tail = tokenizer.encode("\n").ids
        ids += head + body + tail
        is_answer += [False] * len(head) + [turn.role == "assistant"] * len(body)
        is_answer += [False] * len(tail)
    ids.append(token_id(tokenizer, DOCUMENT_END))
    return ids, [*is_answer, False]


def _texts(seed: int, dialogues: int) -> Iterator[str]:
    for index in range(dialogues):
        for turn in generate(seed, index).turns:
            yield turn.role + "\n"
            yield turn.text
