"""From conf/ and the command line to settings."""
