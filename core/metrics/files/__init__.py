"""Metrics in files.

- `finder`: find the files that the program writes
- `growing_file`: the new bytes of a file
- `record_logs`: CSV tables and JSON lines
- `tensorboard`, `tensorboard_writer`, `tensorboard_folder`, `crc32c`: read and write TensorBoard event files
- `wandb_log`, `tracker_databases`, `mlflow_files`: files of Weights & Biases, trackio and MLflow
- `protobuf`: fields of protobuf messages
"""
