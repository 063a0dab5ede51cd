"""TensorFlow's ParameterServerStrategy: a chief, workers and a server, each with its own TF_CONFIG.

Reading a loss costs a message here. This script reads all losses once per epoch, as is usual; a script that never
reads them is about a tenth faster.
"""

import os

import keras
import tensorflow as tf
from _script import Watch, arguments
from _tensorflow import in_order, shuffled

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type != "chief":
    cores = len(os.sched_getaffinity(0))
    # With a thread per core servers of one core wait for each other for ever.
    threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=cores, inter_op_parallelism_threads=cores + 4)
    job = {"job_name": cluster.task_type, "task_index": cluster.task_id}
    tf.distribute.Server(cluster.cluster_spec(), **job, protocol="grpc", config=threads).join()

recipe, epochs, batch_size, rate = arguments()
(inputs, targets), (val_inputs, val_targets) = recipe.train_data(), recipe.val_data()
metrics = recipe.metrics()
strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    keras.utils.set_random_seed(0)
    model = recipe.model()
    optimizer = recipe.optimizer(learning_rate=rate)
    optimizer.build(model.trainable_variables)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
def train(index):
    def replica():
        target = tf.gather(targets, index)  # the arrays are constants of the function: each worker has its own
        with tf.GradientTape() as tape:
            loss = loss_function(target, model(tf.gather(inputs, index), training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return strategy.run(replica)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
def measure(index):
    def replica():
        target, output = tf.gather(val_targets, index), model(tf.gather(val_inputs, index), training=False)
        means = [loss_function(target, output), *(tf.reduce_mean(each(target, output)) for each in metrics.values())]
        return tf.stack(means) * tf.cast(tf.size(index), tf.float32)

    return strategy.run(replica)


watch = Watch()
for epoch in range(epochs):
    losses = [coordinator.schedule(train, args=(index,)) for index in shuffled(len(inputs), epoch, batch_size)]
    losses = coordinator.fetch(losses)
    parts = [coordinator.schedule(measure, args=(index,)) for index in in_order(len(val_inputs), batch_size)]
    means = tf.add_n(coordinator.fetch(parts)).numpy() / len(val_inputs)
    watch.epoch_done()
watch.tell(float(means[0]))
