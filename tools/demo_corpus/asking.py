"""Ways to ask: the phrasings that many questions about one thing share."""

from __future__ import annotations


def about(*things: str) -> tuple[str, ...]:
    """Return templates that ask what a thing is; `things` are its names, templates as well."""
    x = "[" + "|".join(things) + "]" if len(things) > 1 else things[0]
    return (
        f"[What is|What's|what exactly is|what is|whats] {x}[| exactly| again| really| in simple "
        "words| in short| for a beginner|, please]?",
        f"[Explain|Please explain|Describe|Define|Can you explain|Could you explain|Could you "
        f"describe] {x}[| to me| briefly| simply| in a sentence| in easy words].",
        f"[Tell me about|Tell me something about|Teach me about|Talk to me about|Say a few words "
        f"about|I want to know about|I would like to learn about|Give me a summary of] {x}.",
        f"[I do not know|I don't know|I don't get|I do not understand|Tell me|Do you know|Remind "
        f"me|Any idea|No idea|Please tell me|Can you say] what {x} [is|means].",
        f"[What does|what does] {x} [mean|stand for|refer to]?",
        f"[And|So|And what is|Ok, and|What about|How about|And what about] {x}?",
        f"[What is|what's] [meant by|the meaning of|the idea behind|the point of] {x}?",
        f"{x}?",
        f"{x}[, what is that|: what does it mean|, please explain|, what's that]?",
    )


def why(*things: str) -> tuple[str, ...]:
    """Return templates that ask what a thing is for."""
    x = "[" + "|".join(things) + "]" if len(things) > 1 else things[0]
    return (
        f"[Why do I need|Why do we need|Why is there|Why have|Why use|Why bother with|What is the "
        f"use of|What's the purpose of|What do I need] {x}[| at all]?",
        f"[What is|What's] {x} [for|used for|good for|useful for]?",
        f"[What does|How does] {x} [help|do|work|matter]?",
        f"[What are|What's] the [benefits|advantage|benefit|use|purpose] of {x}?",
        f"[Is|Why is] {x} [useful|important|needed|helpful|a good thing]?",
        f"[How does|How do I use|Does edgewise use|When do I need] {x}[| help]?",
    )


def how(*actions: str) -> tuple[str, ...]:
    """Return templates that ask for the way to do something."""
    x = "[" + "|".join(actions) + "]" if len(actions) > 1 else actions[0]
    return (
        f"[How do I|How can I|How do you|How would I|How should I|How to|how does one] "
        f"{x}[| with edgewise| here| then]?",
        f"[I want to|I'd like to|I need to|I have to|I would like to|I am trying to|Help me] "
        f"{x}[.|. How?|. What do I type?|. What now?|, how?]",
        f"[Is there a way to|Can I|Is it possible to|Can edgewise help me|Show me how to|Tell me "
        f"how to|Explain how to|What is the way to] {x}?",
        f"[What do I|What should I|What must I] [type|run|do|enter|use] to {x}?",
        f"[Which command|What command|The command] [lets me|is used to|do I use to|would] {x}?",
        f"[Which command|What] is [for someone who wants|there] to {x}?",
    )


def does(*claims: str) -> tuple[str, ...]:
    """Return templates that ask whether edgewise does something (`run on a CPU`)."""
    x = "[" + "|".join(claims) + "]" if len(claims) > 1 else claims[0]
    return (
        f"[Does|Will|Can|Could|Would|does|can] [edgewise|it|this|edgewise|a bundle|this thing] "
        f"{x}[| too| as well| also]?",
        f"[Is it true that it can|Is it able to|Can I make it|Is edgewise able to|Are you able to|"
        f"Do you think it can|I wonder if it can] {x}?",
        f"[I want it to|It should|I need it to] {x}[.|. Possible?|. Is that okay?|. Does it?]",
    )
