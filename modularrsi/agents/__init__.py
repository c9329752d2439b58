"""Who acts in a rollout: the harness under test, the task's reference solution, or nobody."""
