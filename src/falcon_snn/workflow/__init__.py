"""What the commands do, as Python functions: what commands, the studio and users call."""
