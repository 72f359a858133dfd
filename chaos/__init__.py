"""The proof that nothing is lost: real processes, seeded violence, and an audit afterwards."""
