"""The team's store: PostgreSQL."""
