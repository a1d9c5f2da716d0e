"""Tree-substitution grammars: Gibbs sampler, base distributions, priors [CGB09]."""
