"""Embedders: what prepares texts, who is asked for vectors, and which one fits a group."""
