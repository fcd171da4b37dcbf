"""A ladder of CUDA matmul kernels on a measured, nested roofline, with a GPU and without."""
