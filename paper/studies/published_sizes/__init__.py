"""Time and memory of training steps at the published sizes, one study for each table."""
