"""``/v1/responses``: conversations of items, which the server may keep for a while."""
