"""What an operation costs: analog macro, digital engines, energy; profiles in TOML."""
