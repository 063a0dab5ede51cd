"""A program of a user's own: it prints its loss, as programs do."""

for step in range(1, 21):
    print(f"step={step} loss={1 / step:.4f} acc={step / 20:.2f}", flush=True)
