"""Pages for a browser: one file each, that needs nothing else."""
