"""One rollout: one agent, one task, one sandbox, one reward that can be believed."""
