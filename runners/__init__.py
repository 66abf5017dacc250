"""Programs on top of the harness; the harness never imports them."""
