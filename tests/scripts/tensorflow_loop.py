"""A loop of one's own in TensorFlow, as its tutorials print."""

import tensorflow as tf

tf.random.set_seed(0)
inputs = tf.random.normal((128, 8))
targets = tf.reduce_sum(inputs, axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)

for epoch in range(3):
    print(f"\nStart of epoch {epoch}")
    for step in range(20):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - targets))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True)
        )
        if step % 5 == 0:
            print(f"Training loss (for one batch) at step {step}: {float(loss):.4f}")
            print(f"Seen so far: {(step + 1) * 128} samples")
