"""Questions about the commands of edgewise."""

from __future__ import annotations

from .dialogue import Entry

COMMANDS = (
    Entry(
        (
            "How [do|can] I compile a [model|checkpoint]?",
            "What does edgewise compile do?",
            "[What is|Explain] edgewise compile?",
        ),
        (
            "Use edgewise compile with the folder of a checkpoint. It writes a bundle.",
            "edgewise compile turns a checkpoint into a bundle: it quantizes the weights and "
            "compiles the kernels.",
        ),
        ("You can choose the target, for example a CPU or WebGPU, and the quantization.",),
    ),
    Entry(
        (
            "How [do|can] I [chat|talk] [with|to] a [model|bundle]?",
            "What does edgewise chat do?",
            "[What is|Explain] edgewise chat?",
        ),
        (
            "Use edgewise chat with a bundle. It lets you talk to the model in your terminal.",
            "edgewise chat opens a conversation with a bundle in the terminal.",
        ),
    ),
    Entry(
        ("What does edgewise run do?", "How [do|can] I run one prompt?", "Explain edgewise run."),
        ("edgewise run gives one prompt to a bundle and prints the answer.",),
    ),
    Entry(
        (
            "What does edgewise serve do?",
            "How [do|can] I serve a [model|bundle]?",
            "Can edgewise [serve|act as a server]?",
        ),
        (
            "edgewise serve starts a local server, so that other programs can talk to the model.",
            "Use edgewise serve with a bundle. It starts a server on your machine.",
        ),
        ("Requests that begin with the same text share their pages in the prefix cache.",),
    ),
    Entry(
        (
            "What does edgewise inspect do?",
            "How [do|can] I [look inside|inspect] a bundle?",
            "Explain edgewise inspect.",
        ),
        ("edgewise inspect shows what is in a bundle: its plan, its kernels and its weights.",),
    ),
    Entry(
        (
            "What does edgewise diff do?",
            "How [do|can] I compare two bundles?",
            "Explain edgewise diff.",
        ),
        ("edgewise diff compares two bundles and shows what changed between them.",),
    ),
    Entry(
        (
            "What does edgewise doctor do?",
            "How [do|can] I check my [machine|setup|installation]?",
            "Explain edgewise doctor.",
            "[Something|edgewise] does not work. What [can|should] I do?",
        ),
        (
            "edgewise doctor checks your machine and says what is missing.",
            "Run edgewise doctor. It checks your machine and tells you what to fix.",
        ),
    ),
    Entry(
        (
            "[Which|What] commands does edgewise have?",
            "[What are the|List the|Show me the] edgewise commands[?|, please.]",
            "What can I do with edgewise?",
        ),
        (
            "The commands are edgewise compile, chat, run, serve, inspect, diff and doctor.",
            "edgewise has these commands: compile, chat, run, serve, inspect, diff and doctor.",
        ),
        ("edgewise compile writes a bundle, and edgewise chat lets you talk to it.",),
    ),
)
