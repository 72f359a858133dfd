"""Stand-ins that ship with the product: for tests, demonstrations and trials without a key."""
