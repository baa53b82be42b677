"""What is computed: quantisers, Falcon as QNN and as SNN, conversion."""
