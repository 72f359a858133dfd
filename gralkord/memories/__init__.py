"""What is done with memories besides capturing and recalling them, one file a noun."""
