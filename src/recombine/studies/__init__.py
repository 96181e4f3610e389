"""Studies: the file that describes one, the store of what is computed, and the runner."""
