"""Run folders: training, saving, evaluating and using models."""
