"""The methods: one file for each family, each reading like the paper's algorithm box."""
