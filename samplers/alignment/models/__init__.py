"""The aligner's models, the registry that names them, and the sampler that runs any of them."""
