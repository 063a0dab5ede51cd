"""General widgets that know nothing about training."""
