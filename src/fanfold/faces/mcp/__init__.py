"""The MCP server: an agent hands work to the members of a roster, within a budget it cannot set."""
