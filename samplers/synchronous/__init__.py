"""Gibbs and Metropolis-Hastings samplers for synchronous phrase grammars [CFGŠ14]."""
