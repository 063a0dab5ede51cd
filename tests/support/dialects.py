"""Small programs for each way of launching: a line `# name: words of the reason`, the source, and an empty line."""

from __future__ import annotations

PER_DEVICE = """
# torchrun's rank: reads LOCAL_RANK, as programs written for torchrun
import os
rank = int(os.environ['LOCAL_RANK'])

# get: reads WORLD_SIZE
import os
world = int(os.environ.get('WORLD_SIZE', 1))

# getenv: reads RANK
from os import getenv
rank = getenv('RANK')

# environ: reads RANK
from os import environ as e
if 'RANK' in e: pass

# renamed: reads LOCAL_RANK
import os as o
env = o.environ
x = env.get('LOCAL_RANK')

# a constant: reads LOCAL_RANK
import os
KEY = 'LOCAL_RANK'
x = os.environ[KEY]

# a loop: reads RANK
import os
d = {key: os.environ[key] for key in ('MASTER_ADDR', 'RANK', 'WORLD_SIZE')}

# in a function: reads LOCAL_RANK
import os
def main():
    return int(os.environ['LOCAL_RANK'])

# beside DataParallel: reads LOCAL_RANK
import os
from torch import nn
if 'LOCAL_RANK' in os.environ: pass
else: nn.DataParallel(m)

# a device map of its rank: reads LOCAL_RANK
import os, transformers
map = 'auto'
if os.environ.get('LOCAL_RANK'): map = {}
transformers.AutoModel.from_pretrained('x', device_map=map)

# init_process_group: calls init_process_group and takes its rank from the environment
import torch.distributed as dist
dist.init_process_group('gloo')

# env://: init_process_group
from torch import distributed as d
d.init_process_group('nccl', init_method='env://', rank=r, world_size=w)

# a device mesh: init_device_mesh
from torch.distributed.device_mesh import init_device_mesh
init_device_mesh('cpu', (2,))

# Accelerate: uses Accelerate (Accelerator)
from accelerate import Accelerator
accelerator = Accelerator()

# DeepSpeed: uses DeepSpeed (initialize)
import deepspeed
engine, *_ = deepspeed.initialize(model=m)

# Fabric: Lightning's Fabric
from lightning.fabric import Fabric
f = Fabric()

# Lightning: Lightning's Trainer
import lightning as L
L.Trainer(max_epochs=1).fit(m)

# old Lightning: Lightning's Trainer
import pytorch_lightning as pl
pl.Trainer(strategy='ddp').fit(m)

# Hugging Face: Hugging Face Trainer
from transformers import Trainer, TrainingArguments
Trainer(model=m).train()

# a subclass: Seq2SeqTrainer
import transformers
class Mine(transformers.Seq2SeqTrainer): pass
Mine().train()

# TRL: SFTTrainer
from trl import SFTTrainer
SFTTrainer(m).train()
"""

ONE = """
# nothing: Nothing in it is written for several processes
import torch
model = torch.nn.Linear(2, 2)

# no framework: imports no known framework
print('hello')

# mp.spawn: (spawn)
import torch.multiprocessing as mp
import torch.distributed as dist
def f(rank): dist.init_process_group('gloo', rank=rank, world_size=2)
mp.spawn(f, nprocs=2)

# spawn, though it knows torchrun: starts its own processes
import os
from torch.multiprocessing import spawn
if 'LOCAL_RANK' in os.environ: pass
else: spawn(f)

# processes: (Process)
import multiprocessing as mp
import torch.distributed as dist
def f(rank): dist.init_process_group('gloo')
mp.Process(target=f).start()

# ranks that it sets: sets RANK itself, so it is not written for torchrun
import os
import torch.distributed as dist
os.environ['RANK'] = '0'
dist.init_process_group('gloo')

# torchrun started: with torchrun
import subprocess
subprocess.run(['torchrun', 'real.py'])

# accelerate started: with accelerate launch
import os
os.system('accelerate launch real.py')

# notebook_launcher: (notebook_launcher)
from accelerate import Accelerator, notebook_launcher
notebook_launcher(f)

# ddp_spawn: (ddp_spawn)
import lightning
lightning.Trainer(strategy='ddp_spawn')

# DataParallel: nn.DataParallel, which drives all devices
from torch import nn
model = nn.DataParallel(model)

# device_map: device_map="auto"
from transformers import AutoModel, Trainer
AutoModel.from_pretrained('x', device_map='auto')
Trainer()

# a rank of its own: not written for torchrun
import torch.distributed as dist
dist.init_process_group('gloo', 'tcp://localhost:1', rank=args.rank, world_size=4)

# TensorFlow's strategy: TensorFlow's MirroredStrategy
import tensorflow as tf
strategy = tf.distribute.MirroredStrategy()

# TensorFlow: TensorFlow program
import tensorflow as tf

# Keras: Keras program
import keras
keras.Sequential()

# JAX: JAX program
import flax

# words in a string: Nothing in it
import torch
print("os.environ['LOCAL_RANK']")  # mp.spawn, torchrun

# a name of its own: Nothing in it
import mine
mine.Accelerator()
class Trainer: pass
Trainer()
import torch

# an import only: Nothing in it
import torch
from accelerate.utils import set_seed
set_seed(0)

# DataParallel asked for: Nothing in it
from torch import nn
if isinstance(m, nn.DataParallel): m = m.module

# another variable: Nothing in it
import os, torch
os.environ['MASTER_ADDR']; os.environ.get('HOME')

# type hints: Nothing in it
from __future__ import annotations
import torch
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import tensorflow
"""


def cases(text: str) -> dict[str, tuple[str, str]]:
    """Return (source, words) by name."""
    found = {}
    for block in text.strip().split("\n\n"):
        head, _, source = block.partition("\n")
        name, _, words = head.removeprefix("# ").partition(": ")
        found[name] = (source, words)
    return found
