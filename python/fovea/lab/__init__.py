"""The laboratory: judges kernels of others, accepts our own and times them beside their peers."""
