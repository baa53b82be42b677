"""A local page to play with delays: its state, what follows from it, and the page itself."""
