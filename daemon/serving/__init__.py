"""The daemon `hierogram serve`: supervised loops around a store that keeps learning."""
