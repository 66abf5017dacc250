"""What needs a GPU; skipped elsewhere."""
