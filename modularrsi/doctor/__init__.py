"""Which sandboxes, cages, terminals, model endpoints and extras work on this machine; why not; what mends it."""
