"""Protocols and formats of other programs: LibreTranslate, amagama, MCP and TMX."""
