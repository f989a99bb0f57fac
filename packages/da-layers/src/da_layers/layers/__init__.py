"""Layers, one file each."""
