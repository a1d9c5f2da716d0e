"""Protocols of other programs: LibreTranslate, amagama, TMX, MCP."""
