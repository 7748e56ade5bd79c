"""What it means for the reader: progress, reports."""
