"""The traces of frameworks, read as events; none of their packages is imported."""
