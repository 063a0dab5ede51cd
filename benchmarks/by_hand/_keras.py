"""Compile and fit, the same under every strategy."""

import keras
import tensorflow as tf
from _script import Watch


class Epochs(keras.callbacks.Callback):
    """Stops the time at the end of each epoch, its validation included."""

    def __init__(self):
        super().__init__()
        self.watch = Watch()

    def on_epoch_end(self, epoch, logs=None):
        self.watch.epoch_done()


def fit(recipe, make_model, epochs, batch_size, rate):
    keras.utils.set_random_seed(0)
    model = make_model()
    model.compile(
        optimizer=recipe.optimizer(learning_rate=rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=list(recipe.metrics().values()),
        jit_compile=False,
    )
    callback = Epochs()
    history = model.fit(
        batches_of(recipe.train_data(), batch_size, shuffle=True),
        epochs=epochs,
        validation_data=batches_of(recipe.val_data(), batch_size),
        callbacks=[callback],
        verbose=0,
    )
    callback.watch.tell(history.history["val_loss"][-1])


def batches_of(data, batch_size, *, shuffle=False):
    items = tf.data.Dataset.from_tensor_slices(data)  # which costs fit less than arrays do
    if shuffle:
        items = items.shuffle(len(data[0]), seed=0)
    return items.batch(batch_size).prefetch(tf.data.AUTOTUNE)
