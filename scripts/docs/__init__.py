"""``make docs``: the generated parts of README.md and docs/, from compact records alone."""
