"""Speech Commands, Spiking Speech Commands, features, the inner ear, the embedded set."""
