"""Says nothing at all."""

sum(number * number for number in range(300_000))
