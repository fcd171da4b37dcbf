"""What takes wavefronts of a GPU's data pipe, launch by launch: `python -m bench.wavefront_probe --out FILE.json`.

Small kernels of cuda_src/probes/wavefronts.cu run under ncu, one thing varied at a time: lines of a request, hits and
misses, warps, pace, stores, reductions, copies, and the tile product with parts left out. The record of an H200,
bench/results/nvidia-h200/wavefront-probe.json, is where ladder.memory has its rules from, and the tests compare them.
"""
