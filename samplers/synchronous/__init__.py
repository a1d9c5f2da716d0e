"""Gibbs sampler and type-based moves for synchronous phrase grammars [CFGŠ14]."""
