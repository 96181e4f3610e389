"""Layers with a member axis and the one transformer backbone."""
