"""Grammars as files that decoders and analysts load as they are."""
