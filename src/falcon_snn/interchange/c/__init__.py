"""A network as plain C99."""
