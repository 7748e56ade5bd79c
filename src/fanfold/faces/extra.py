"""Is the extra `mcp` installed? Its packages are imported only where a server is started."""

from __future__ import annotations

MISSING = "fanfold mcp needs the MCP SDK; install it with: pip install 'fanfold[mcp]'"


def missing_extra() -> str:
    """What to do about it; nothing when it is there."""
    try:
        import mcp.server.lowlevel
    except ImportError:
        return MISSING
    assert mcp.server.lowlevel
    return ""
