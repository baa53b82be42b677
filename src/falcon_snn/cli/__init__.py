"""The commands of `falcon-snn`, one thin file each."""
