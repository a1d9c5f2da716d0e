"""Pieces of TMX translation memories."""

HEAD = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="fr"/><body>'
TAIL = "</body></tmx>"


def unit(*variants: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants) + "</tu>"
