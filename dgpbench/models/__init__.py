"""Models of a user's own table: fitted, saved, loaded, and asked for new rows."""
