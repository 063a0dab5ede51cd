"""Controllers connect panels, services and the core. Each serves one use case."""
