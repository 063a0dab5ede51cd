"""Fields of forms, and boxes to choose from."""
