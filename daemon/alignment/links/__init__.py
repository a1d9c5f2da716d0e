"""The links that a store keeps of its pairs, and the aligner's counts that follow from them."""
