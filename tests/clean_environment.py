"""Takes out of the environment what the user of this machine has set for other work, before any test runs."""

import os

# Settings of the program, of the clients of the hub, and of the builds that tests start.
FOREIGN = (
    "FOVEA_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SSL_CERT_FILE",
    "CMAKE_", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS",
)  # fmt: skip
# Except for what says how to test, which libraries to use, and which code of the CPU and the GPU to run.
KEPT = (
    "FOVEA_TEST_", "FOVEA_ATTACK_", "FOVEA_STATE_", "FOVEA_BIN", "FOVEA_PIXELS_TOOL", "FOVEA_ENCODE_TOOL",
    "FOVEA_LIBRARY", "FOVEA_LIBHEIF", "FOVEA_CUBLASLT", "FOVEA_CUDNN", "FOVEA_NVRTC",
    "FOVEA_CPU_ISA", "FOVEA_FORCE_", "FOVEA_GPU_SLICE",
)  # fmt: skip

for name in list(os.environ):
    if name.startswith(FOREIGN) and not name.startswith(KEPT):
        del os.environ[name]
os.environ["no_proxy"] = "*"  # tests talk to this machine alone
