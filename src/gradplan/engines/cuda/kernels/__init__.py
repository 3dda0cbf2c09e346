"""Sources of the GPU kernels, one file per family, in Triton.

Nothing here is imported to run a plan: `make kernels` compiles them, and what is shipped and tested
is the PTX in the archive.
"""
