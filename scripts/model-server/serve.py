"""llama.cpp's own HTTP server on a free port of 127.0.0.1. Prints one JSON line when it answers, and ends with its stdin.

    python serve.py '{"model": "tiny.gguf", "context": 4096, "slots": 2, "embeddings": false, "key": null}'
"""

import json
import os
import signal
import sys

import xllamacpp

# Its /slots then show the prompts too, as the model gets them.
os.environ["LLAMA_SERVER_SLOTS_DEBUG"] = "1"
given = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = given["model"]
params.model_alias = {"tiny"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = given["context"]
params.n_parallel = given["slots"]
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.n_threads_http = 8
params.warmup = False
params.endpoint_slots = True
if given["embeddings"]:
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
if given["key"]:
    params.api_keys = [given["key"]]

server = xllamacpp.Server(params)
print(json.dumps({"url": server.listening_address}), flush=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
# Whoever started this holds the other end: when that process is gone, so is this one.
while sys.stdin.buffer.read(65536):
    pass
os._exit(0)
