"""The embedded redis-server and FalkorDB: found, configured, started and supervised."""
