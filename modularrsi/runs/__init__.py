"""A run: many rollouts of many tasks under one frozen contract, resumable after any kill."""
