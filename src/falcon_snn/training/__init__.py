"""QNN training, spike-based QAT, neuron tuning, joint training; checkpoints."""
