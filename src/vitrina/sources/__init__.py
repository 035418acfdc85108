"""What a SELECT is read from: how it is reached, read, and how far it can be trusted to be complete."""
