"""The firing rule SN_delta: reference, torch, numba, Triton; packed spike trains; the theorems."""
