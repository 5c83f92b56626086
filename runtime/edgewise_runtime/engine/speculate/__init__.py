"""Tokens guessed ahead of the model, which then verifies several of them in one step.

A guess changes how fast a text appears, never which one: the model's own draw decides at every
position, and what was guessed after the first difference is dropped.
"""
