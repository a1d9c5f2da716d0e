"""Plain-text API for other programs: translations, corrections, similar pairs."""
