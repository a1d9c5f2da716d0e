"""Model Context Protocol (MCP): a store as tools for language models."""
