// An empty library with the name of one of NVIDIA's: the program loads it instead of that, and
// finds all functions in libfovea_cuda.so, on which it depends.
