"""Texts that tokenizers and templates disagree about, and strings made from a seed."""

from __future__ import annotations

from random import Random

TEXTS = (
    "",
    " ",
    "Hello, world!",
    "  leading and trailing  ",
    "The quick brown fox jumps over the lazy dog; it doesn't, it'll, they've, I'M, WE'RE.",
    "line one\nline two\r\nline three\n\n\n    indented\t\ttabs\n",
    "1 12 123 1234 12345 3.14159 1,000,000 0x1F 2⁸ ½ ٣٤٥ ४५६",
    "def f(x: int) -> int:\n    return {'a': [x ** 2 for x in range(10)]}  # comment\n",
    '#include <stdio.h>\nint main(void) { printf("%d\\n", 1 << 5); return 0; }',
    "SELECT * FROM t WHERE a='b' AND c<>\"d\"; -- 100%",
    "日本語のテキストと漢字、カタカナ。中文句子没有空格，標點符號！한국어 문장도 있습니다.",
    "مرحبا بالعالم، كيف حالك؟ שלום עולם, מה שלומך? ‏mixed‎ RTL and LTR",
    "नमस्ते दुनिया ไม่มีช่องว่างในภาษาไทย Привет, мир! Γειά σου Κόσμε",
    "😀👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇫🇷 emoji ❤️ and 🤷🏻‍♀️ text",
    "e\u0301 cafe\u0301 Å A\u030a ﬁ ﬂ ㎏ \u1100\u1161 ẛ̣ zalgo: t̷̛̰e̵͓͝x̶̱̌t̸̰̆",
    "zero\u200bwidth\u200cjoin\u200der \ufeffbom soft\u00adhyphen nbsp\u00a0here \u2028 \u2029 end",
    "control\x00\x01\x07\x1b[31m\x7f\x85 bytes",
    "literal <s> </s> <|im_start|>user\nhi<|im_end|> <|eot_id|> <0x41> <0xE4> ▁ Ġ Ċ <|im_start",
    "https://example.org/a/b?c=d&e=%20f#g user@example.com C:\\temp\\x.txt",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𓀀 🜁 \U0010fffd",
    "word" * 1500,
    "漢" * 900,
    " " * 300 + "x" + "\n" * 300,
    "aAbBcC" * 200 + "!?.," * 100,
    "ᚠᛇᚻ᛫ᛒᛦᚦ ⠓⠑⠇⠇⠕ ♔♕♖ ∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ → ⟨a,b⟩",
)

_ALPHABETS = (
    "etaoin shrdlu ETAOIN,.!?'\"-\n",
    "0123456789 .,+-*/=()[]{}<>|_\t",
    "äöüßéèêñçøåæœŁžš ÀÉÎÕÜ",
    "的一是不了人我在有他这中大来上国，。！？ のはをにがと",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي אבגדהוזחטיכלמנ ؟،",
    "кириллица ДЖЭЮЯ ελληνικά ΣΩΨ",
    "अआइईउऊकखगघ ि ा ् กขคงจฉ ะ า ิ ี",
    "😀😁😂🤣👍👎❤️🎉🚀\u200d🏽🏻♂♀\ufe0f",
    "\u0301\u0300\u0308\u030a\u0327aeioun",
    "\u00a0\u2003\u200b\u2028\ufeff \t\r\n\x00\x1f",
)
_FRAGMENTS = ("<|im_start|>", "<|im_end|>", "<s>", "</s>", "'ll", "'Re", "<0x", "▁", "Ġ", "  \n")


def fuzzed(index: int) -> str:
    """Return string number `index`, always the same: 0 to 60 pieces of mixed scripts."""
    rng = Random(f"edgewise/{index}")
    alphabets = rng.sample(_ALPHABETS, rng.randint(1, 3))
    pieces = []
    for _ in range(rng.randint(0, 60)):
        if rng.random() < 0.06:
            pieces.append(rng.choice(_FRAGMENTS))
        else:
            pieces.append("".join(rng.choices(rng.choice(alphabets), k=rng.randint(1, 4))))
    return "".join(pieces)
