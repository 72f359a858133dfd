"""What agents wrote: envelope, producer, router, session buffers."""
