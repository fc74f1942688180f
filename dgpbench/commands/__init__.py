"""The subcommands of ``dgpbench``, one file each; heavy imports happen inside the functions."""
