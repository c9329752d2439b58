"""Scores what a rollout left behind. The only source of rewards."""
