"""Metrics in files.

- `finder`: find the files that the program writes
- `growing_file`: the new bytes of a file
- `record_logs`: CSV tables and JSON lines
- `tensorboard`, `tensorboard_writer`: read and write TensorBoard event files
- `trackers`: files of Weights & Biases and MLflow, databases of trackio and MLflow
- `encoding`: fields of protobuf messages, checksums
"""
