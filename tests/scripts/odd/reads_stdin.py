"""Asks a question that nobody can answer."""

name = input("experiment? ")
print("step 1 loss 0.5", name)
