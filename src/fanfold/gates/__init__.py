"""WHETHER it is good. Gates judge replies; only what passes goes on."""
