"""Plain questions that a small model answers in a sentence or two, to tell a sound one by."""

from __future__ import annotations

QUESTIONS = (
    "What is the capital of France?",
    "What is the capital of Japan?",
    "How many days are in a week?",
    "What color is the sky on a clear day?",
    "Who wrote Romeo and Juliet?",
    "What is the largest planet in our solar system?",
    "What do bees make?",
    "What is the opposite of hot?",
    "Which animal says meow?",
    "What is frozen water called?",
    "What is two plus two?",
    "Name three fruits.",
    "Why do leaves fall in autumn?",
    "What is the boiling point of water?",
    "Write one sentence about the sea.",
    "What is a library for?",
    "How do I make a cup of tea?",
    "What is gravity?",
    "Give me a short greeting.",
    "What does a doctor do?",
)
