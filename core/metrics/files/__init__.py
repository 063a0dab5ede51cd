"""Metrics in files.

- `finder`: find the files that the program writes
- `growing_file`: the new bytes of a file
- `record_logs`: CSV tables, JSON lines and MLflow's files
- `tensorboard`, `tensorboard_writer`, `tensorboard_folder`, `crc32c`: read and write TensorBoard event files
- `wandb_log`, `tracker_databases`: files of Weights & Biases, databases of trackio and MLflow
- `protobuf`: read and write the fields of protobuf messages
"""
