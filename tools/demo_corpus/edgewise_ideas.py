"""Questions about the ideas behind edgewise."""

from __future__ import annotations

from .asking import about, does, how, why
from .dialogue import Entry

IDEAS = (
    Entry(
        (
            *about("quantization", "quantizing", "a quantized model"),
            *why("quantization", "quantizing a model"),
            "Why [do you|does edgewise|would I] [quantize the weights|quantize]?",
            *how("make a model smaller", "save memory", "shrink a model"),
        ),
        (
            "Quantization stores the weights with fewer bits, such as 4 or 8. The model gets "
            "smaller and faster, and loses a little accuracy.",
            "To quantize is to store each weight in fewer bits, for example q4 or q8. This makes a "
            "model smaller and faster.",
        ),
        ("edgewise knows q4, with 4 bits for each weight, and q8, with 8 bits.",),
    ),
    Entry(
        (
            "[Does|Will|How much does|Is] [quantization|q4|quantizing|a quantized model] [make the "
            "model worse|lose quality|cost accuracy|reduce quality|change the results|bad|hurt]?",
            "[Is a small model|Are q4 models|Is q4] [less accurate|worse|less good|dumber]?",
            "[How much|What] [accuracy|quality] [is lost|do I lose|gets lost] [with q4|by "
            "quantization|when I quantize]?",
        ),
        (
            "Only a little accuracy is lost: q8 is very close to the original, and q4 loses a "
            "little more.",
        ),
    ),
    Entry(
        (
            "[Which|What] [quantizations|formats|weight formats|precisions|types|kinds of "
            "quantization] [are there|exist|can I choose|does edgewise have|does it support|are "
            "supported|do you offer]?",
            "[What|Which] values [can|does] --quant [take|have|accept]?",
            "[Name|List|Give me|Show me|Tell me] [all|the] [quantizations|weight formats|formats|"
            "options for --quant|quantization names|number formats].",
            *how("choose a quantization", "set the quantization", "choose the weight format"),
            *about("--quant", "the quant option"),
        ),
        (
            "You can choose f32, f16, q8 and q4 with --quant. q4 is the smallest.",
            "There are four: f32, f16, q8 and q4.",
        ),
        ("Start with q4 to save memory, and use q8 when the answers matter more.",),
    ),
    Entry(
        (
            "[What is|What's|Tell me] the difference between [q4 and q8|q8 and q4].",
            "[Should I use|What is better,|Which is better,|Which one,|Do I want] [q4 or q8|q8 or "
            "q4]?",
            "[Is|Why is] [q4|q8] [better|smaller|faster|bigger|more precise|more exact] than "
            "[q8|q4]?",
            "[Compare|Explain] [q4 and q8|q8 with q4|q4 to q8].",
            "[Which|What] quantization [should I use|is best|do you advise|is the best]?",
        ),
        (
            "q4 is smaller, with 4 bits for each weight. q8 uses 8 bits and is closer to the "
            "original.",
        ),
        ("Start with q4 to save memory, and use q8 when the answers matter more.",),
    ),
    Entry(
        (
            *about("q4"),
            "[How many bits|What number of bits] [does q4 use|has q4|are in q4|does q4 have]?",
            "[What is|What's] the smallest [format|quantization|size of a weight|weight format]?",
            "Why is it called q4?",
            "[How few bits|How many bits] can a weight [have|take]?",
        ),
        ("q4 is a quantization with 4 bits for each weight. It makes a model very small.",),
    ),
    Entry(
        (
            *about("q8"),
            "[What number of bits does q8 use|How many bits are in q8|How many bits has q8]?",
            "Why is it called q8?",
        ),
        ("q8 is a quantization with 8 bits for each weight. It stays close to the original.",),
    ),
    Entry(
        (
            *about("f32", "float32"),
            "[When|Why] [would I|do I|should one|should someone] [use|need|want|take] f32?",
            *why("f32"),
            "Is f32 [slow|large|exact|better|the best]?",
        ),
        (
            "f32 keeps every weight in full precision, with 32 bits. It is large, and good to "
            "check results.",
        ),
    ),
    Entry(
        (*about("f16", "float16"), *why("f16")),
        ("f16 stores each weight in 16 bits. It is half as large as f32 and nearly as exact.",),
    ),
    Entry(
        (
            *about("the KV cache", "a KV cache", "KV", "the cache"),
            *why("the KV cache", "a KV cache"),
            "[What is|What do you keep|What gets stored|What's] in the [KV cache|KV pages|pages|"
            "cache]?",
            "What [are|do] [KV pages|the pages] [hold|for|store|contain]?",
        ),
        (
            "The KV cache holds the keys and values of all tokens so far, so that they are not "
            "computed again for each new token.",
            "A KV cache keeps the keys and values of earlier tokens. That makes each new token "
            "cheap.",
        ),
        ("edgewise keeps the KV cache in pages, so that memory is used only when it is needed.",),
    ),
    Entry(
        (
            *about("a page", "a KV page", "pages", "KV pages", "paged memory", "paging"),
            *why("pages", "paged KV memory", "paging"),
            "[How big|How large|How many tokens] is [a page|one page|a KV page|each page]?",
            "[How many tokens|What] [fit in|go into|are in|does] [a page|one page] [hold|then]?",
            "[What is|What's] the [size|length] of a [page|KV page]?",
            "Why [is|does] [the KV cache|memory|edgewise] [in pages|cut into pages|use pages]?",
        ),
        (
            "A page holds the keys and values of 16 tokens. Pages are given out as a conversation "
            "grows, so no memory is wasted.",
            "edgewise keeps the KV cache in pages of 16 tokens. A page is taken when it is needed "
            "and can be shared.",
        ),
        ("Pages can be shared, and that is how prefix caching works.",),
    ),
    Entry(
        (
            *about("prefix caching", "the prefix cache", "a prefix cache", "a shared prefix"),
            *why("prefix caching", "the prefix cache"),
            "What if [two prompts|many chats|two requests] [begin|open] with [the same text|the "
            "same words|one system prompt]?",
            *does(
                "share pages",
                "reuse pages",
                "remember earlier prompts",
                "cache prompts",
                "avoid reading a prompt twice",
                "save work when prompts begin alike",
            ),
        ),
        (
            "The prefix cache keeps the pages of text that was read before. A prompt that begins "
            "with the same text shares them, and time is saved.",
            "Yes: with prefix caching, prompts that begin with the same text share its pages, so "
            "it is not read again.",
        ),
    ),
    Entry(
        (
            *about("a plan", "the plan", "an edgewise plan", "plans"),
            *why("a plan", "the plan", "plans"),
            "[What is in|What does it say in|What stands in] [a|the] plan?",
            "[In which order|How|When] do the kernels run?",
            "[What|Who] [decides|says|knows|controls] [the order|what runs|what comes next|when a "
            "kernel runs|the memory]?",
        ),
        (
            "A plan is a flat list of steps: it says which kernel runs when, and on which memory.",
            "The plan lists the kernel launches in order. Each step names a kernel and the memory "
            "it reads and writes.",
        ),
    ),
    Entry(
        (
            *about("a kernel", "kernels", "the kernels"),
            *why("kernels", "a kernel"),
            "What do the kernels do?",
        ),
        (
            "A kernel is a small compiled function, such as a matrix product. Apache TVM compiles "
            "the kernels for each target.",
        ),
    ),
    Entry(
        (
            *about("TVM", "Apache TVM", "the compiler behind it"),
            *why("TVM", "Apache TVM"),
            "[Why|For what|How] does edgewise use [Apache |]TVM?",
            "[What role does|What part does|What job has] TVM [play|have|do][| here]?",
        ),
        (
            "Apache TVM is an open source compiler for machine learning. edgewise uses it to "
            "compile the kernels.",
        ),
    ),
    Entry(
        (*about("WebGPU"), *why("WebGPU")),
        ("WebGPU lets a web page use the graphics card. With it, edgewise runs in a browser tab.",),
    ),
    Entry(
        (*about("a checkpoint", "a model checkpoint", "checkpoints"),),
        ("A checkpoint is a folder with the weights, the settings and the tokenizer of a model.",),
    ),
    Entry(
        (
            *about("a tokenizer", "the tokenizer", "a token", "tokens", "tokenization"),
            "What does [the|a] tokenizer do?",
            "How [long|big] is a token?",
        ),
        ("A tokenizer cuts text into tokens. A token is a word or a piece of a word.",),
    ),
    Entry(
        (
            *about("a transformer", "a language model", "an LLM", "a large language model"),
            "How does a language model work?",
        ),
        (
            "A language model predicts the next token of a text. Most are transformers, a kind of "
            "neural network.",
        ),
    ),
    Entry(
        (*about("the runtime", "the edgewise runtime"), *why("the runtime")),
        ("The runtime loads a bundle and launches its kernels as the plan says. It is small.",),
    ),
)
