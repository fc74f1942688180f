"""Published items: the runs that each needs, and their execution."""
