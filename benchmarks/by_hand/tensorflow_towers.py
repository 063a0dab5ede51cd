"""TensorFlow with towers: the batch split and the gradients averaged by hand."""

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
with tf.device(places[0]):
    model = recipe.model()
    optimizer = recipe.optimizer(learning_rate=rate)
    optimizer.build(model.trainable_variables)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train(index):
    losses, gradients = [], []
    for number, place in enumerate(places):
        with tf.device(place):
            mine = index[number :: len(places)]
            target = tf.gather(targets, mine)
            with tf.GradientTape() as tape:
                each = loss_function(target, model(tf.gather(inputs, mine), training=True))
                loss = tf.reduce_sum(each) / tf.cast(tf.size(index), tf.float32)
            losses.append(loss)
            gradients.append(tape.gradient(loss, model.trainable_variables))
    with tf.device(places[0]):
        optimizer.apply([tf.add_n(each) for each in zip(*gradients, strict=True)], model.trainable_variables)
        return tf.add_n(losses)


@tf.function
def measure(index):
    sums = []
    for number, place in enumerate(places):
        with tf.device(place):
            mine = index[number :: len(places)]
            target, output = tf.gather(val_targets, mine), model(tf.gather(val_inputs, mine), training=False)
            values = [loss_function(target, output), *(metric(target, output) for metric in metrics.values())]
            sums.append(tf.stack([tf.reduce_sum(each) for each in values]))
    return tf.add_n(sums)


watch = Watch()
for epoch in range(epochs):
    for index in shuffled(len(inputs), epoch, batch_size):
        train(index)
    sums = [measure(index) for index in in_order(len(val_inputs), batch_size)]
    means = tf.add_n(sums).numpy() / len(val_inputs)
    watch.epoch_done()
watch.tell(float(means[0]))
