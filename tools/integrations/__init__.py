"""Protocols of other programs: LibreTranslate, amagama, TMX exchange, MCP."""
