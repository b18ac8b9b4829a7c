"""The laboratory: judges third-party kernels, and checks and times Fovea's own."""
