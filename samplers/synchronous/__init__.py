"""Synchronous grammars of phrases: Gibbs and Metropolis-Hastings samplers [CFGŠ14]."""
