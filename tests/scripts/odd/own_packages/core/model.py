def losses():
    return [1.0, 0.5, 0.25]
