"""The loop that is the same under every synchronous strategy of tf.distribute, each replica on its slice of a batch."""

import keras
import tensorflow as tf
from _script import Watch
from _tensorflow import in_order, shuffled


def train_under(strategy, recipe, epochs, batch_size, rate, *, tells=True):
    inputs, targets = map(tf.constant, recipe.train_data())
    val_inputs, val_targets = map(tf.constant, recipe.val_data())
    metrics = recipe.metrics()
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = recipe.model()
        optimizer = recipe.optimizer(learning_rate=rate)
        optimizer.build(model.trainable_variables)
        loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def slice_of(index):
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return index[int(number) :: replicas]

    @tf.function
    def train(index):
        def replica():
            mine = slice_of(index)
            target = tf.gather(targets, mine)
            with tf.GradientTape() as tape:
                losses = loss_function(target, model(tf.gather(inputs, mine), training=True))
                loss = tf.reduce_sum(losses) / tf.cast(tf.size(index), tf.float32)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.reduce("SUM", strategy.run(replica), axis=None)

    @tf.function
    def measure(index):
        def replica():
            mine = slice_of(index)
            target, output = tf.gather(val_targets, mine), model(tf.gather(val_inputs, mine), training=False)
            values = [loss_function(target, output), *(metric(target, output) for metric in metrics.values())]
            return tf.stack([tf.reduce_sum(each) for each in values])

        return strategy.reduce("SUM", strategy.run(replica), axis=None)

    watch = Watch()
    for epoch in range(epochs):
        for index in shuffled(len(inputs), epoch, batch_size):
            train(index)
        sums = [measure(index) for index in in_order(len(val_inputs), batch_size)]
        means = tf.add_n(sums).numpy() / len(val_inputs)
        watch.epoch_done()
    if tells:
        watch.tell(float(means[0]))
