"""What is done with one item of a mailbox."""
