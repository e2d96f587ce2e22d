"""Workers: claiming, running, heartbeats, outcomes."""
