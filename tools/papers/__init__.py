<<<<<<< HEAD
"""A command for each table and figure of the papers, and for the figures of docs/ that go with them."""
=======
"""Tables and figures of the papers, each by one command."""
>>>>>>> c4e989c (Align by inversion transduction grammars, and compare their samplers as the paper does)
