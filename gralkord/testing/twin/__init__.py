"""The in-memory twin: the client's methods over a small real memory, without any server."""
