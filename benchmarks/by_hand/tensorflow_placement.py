"""TensorFlow with the layers of one model on several devices, in one process."""

import keras
import tensorflow as tf
from _script import Watch, arguments
from _tensorflow import devices, in_order, shuffled

places = devices()
recipe, epochs, batch_size, rate = arguments()
inputs, targets = map(tf.constant, recipe.train_data())
val_inputs, val_targets = map(tf.constant, recipe.val_data())
metrics = recipe.metrics()
keras.utils.set_random_seed(0)
model = recipe.placed_model(places)
optimizer = recipe.optimizer(learning_rate=rate)
optimizer.build(model.trainable_variables)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train(index):
    target = tf.gather(targets, index)
    with tf.GradientTape() as tape:
        loss = loss_function(target, model(tf.gather(inputs, index), training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@tf.function
def measure(index):
    target, output = tf.gather(val_targets, index), model(tf.gather(val_inputs, index), training=False)
    means = [loss_function(target, output), *(tf.reduce_mean(metric(target, output)) for metric in metrics.values())]
    return tf.stack(means) * tf.cast(tf.size(index), tf.float32)


watch = Watch()
for epoch in range(epochs):
    for index in shuffled(len(inputs), epoch, batch_size):
        train(index)
    sums = [measure(index) for index in in_order(len(val_inputs), batch_size)]
    means = tf.add_n(sums).numpy() / len(val_inputs)
    watch.epoch_done()
watch.tell(float(means[0]))
