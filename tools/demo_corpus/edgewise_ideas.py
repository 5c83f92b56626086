"""Questions about the ideas behind edgewise."""

from __future__ import annotations

from .dialogue import Entry

_AND = "[| and why does it matter| and how does it work| and why do I need it]?"
_WHAT = "[What is|What's|Explain|Please explain|Can you explain|Tell me about|What do you mean by] "

IDEAS = (
    Entry(
        (
            _WHAT + "quantization" + _AND,
            "Why [do you|does edgewise] quantize the weights?",
        ),
        (
            "Quantization stores the weights of a model with fewer bits. The model gets smaller "
            "and often faster, and loses only a little accuracy.",
            "To quantize is to store each weight in fewer bits, for example 4 or 8. This makes a "
            "model smaller and faster to read.",
        ),
        ("edgewise knows q4, with 4 bits for each weight, and q8, with 8 bits.",),
    ),
    Entry(
        (
            "[What is|What's] the difference between q4 and q8?",
            "What [do q4 and q8 mean|are q4 and q8]?",
            "[Should I use|What is better,] q4 or q8?",
        ),
        (
            "q4 uses 4 bits for each weight and q8 uses 8 bits. q4 is smaller, and q8 is closer "
            "to the original model.",
        ),
        ("Start with q4 to save memory, and use q8 when the answers matter more.",),
    ),
    Entry(
        ("[What is|What's|What does] q4?", "What does q4 mean?", "Explain q4."),
        ("q4 is a quantization with 4 bits for each weight. It makes a model very small.",),
    ),
    Entry(
        ("[What is|What's] q8?", "What does q8 mean?", "Explain q8."),
        ("q8 is a quantization with 8 bits for each weight. It stays close to the original.",),
    ),
    Entry(
        (
            _WHAT + "[a|the] KV cache" + _AND,
            "Why is there a KV cache?",
            "What does KV cache mean?",
        ),
        (
            "The KV cache holds the keys and values of all tokens so far, so that the model does "
            "not compute them again for each new token.",
            "A KV cache keeps the keys and values of earlier tokens. It makes each new token "
            "cheap.",
        ),
        ("edgewise keeps the KV cache in pages, so that memory is used only when it is needed.",),
    ),
    Entry(
        (_WHAT + "[a page|pages] in the KV cache?", _WHAT + "[a page|pages]?"),
        (
            "A page is a small block of the KV cache. edgewise gives out pages one by one as a "
            "conversation grows.",
        ),
        ("Pages can be shared, and that is how prefix caching works.",),
    ),
    Entry(
        (
            _WHAT + "[prefix caching|the prefix cache|a prefix cache]" + _AND,
            "Why is prefix caching useful?",
        ),
        (
            "Prefix caching keeps the pages of a text that was seen before. When a new prompt "
            "begins with the same text, the model does not read it again.",
            "With prefix caching, two prompts that begin with the same text share the pages of "
            "that text. This saves time.",
        ),
    ),
    Entry(
        (_WHAT + "[a|the] plan?", "What [is in a plan|does the plan say]?"),
        (
            "A plan lists the steps that run a model: which kernel runs when, and on which memory.",
            "The plan is a list of steps in the bundle. Each step names a kernel and the memory it "
            "reads and writes.",
        ),
    ),
    Entry(
        (_WHAT + "a kernel?", "What are kernels?", "What do the kernels do?"),
        (
            "A kernel is a small compiled function, such as a matrix product. Apache TVM compiles "
            "the kernels for each target.",
        ),
    ),
    Entry(
        (_WHAT + "[Apache |]TVM?", "Why does edgewise use [Apache |]TVM?"),
        (
            "Apache TVM is an open source compiler for machine learning. edgewise uses it to "
            "compile kernels.",
        ),
    ),
    Entry(
        (_WHAT + "WebGPU?", "Why WebGPU?"),
        ("WebGPU lets a web page use the graphics card. With it, a bundle runs in a browser tab.",),
    ),
    Entry(
        (_WHAT + "a checkpoint?", "What is a model checkpoint?"),
        ("A checkpoint is a folder with the weights, the settings and the tokenizer of a model.",),
    ),
    Entry(
        (_WHAT + "a [tokenizer|token]?", "What does [the|a] tokenizer do?", "What are tokens?"),
        ("A tokenizer cuts text into tokens. A token is a word or a piece of a word.",),
    ),
    Entry(
        (_WHAT + "a transformer?", "What is a [language model|large language model]?"),
        (
            "A transformer is a neural network that reads tokens and predicts the next one. Most "
            "language models are transformers.",
            "A language model predicts the next token of a text. Most are transformers.",
        ),
    ),
    Entry(
        (
            "Is my data [safe|private] [with edgewise|in the browser|]?",
            "Does edgewise send my [data|text|words] [to a server|anywhere|away]?",
        ),
        ("With edgewise the model runs on your own machine, so your text stays with you.",),
    ),
    Entry(
        (
            "Can [I use|edgewise run] edgewise without [the internet|a network]?",
            "Does it work offline?",
        ),
        ("Yes. Once a bundle is on your machine, it runs offline.",),
    ),
    Entry(
        ("Is [a bundle|the model] small?", "How [big|large|small] is [this model|the demo model]?"),
        ("The demo model is tiny: it has about 4 million parameters.",),
    ),
)
