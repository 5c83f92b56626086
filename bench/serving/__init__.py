"""Load on servers that speak OpenAI's API: who asks for what, when, and what came of it."""
