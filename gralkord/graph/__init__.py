"""The only place that knows Graphiti and FalkorDB."""
