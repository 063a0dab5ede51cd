"""Fields of forms: creation, layout, editors, groups, and the strategy box."""
