/* The GPU kernels that libfovea.so carries, and what the compiler made of them. */
#ifndef FOVEA_C_KERNELS_H
#define FOVEA_C_KERNELS_H

#include <stdint.h>

#include "fovea/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One kernel for one architecture, as ptxas reported it when the library was built. */
typedef struct fovea_kernel {
  const char* name;          /* lives as long as the library */
  int32_t arch;              /* 90 for sm_90a */
  int32_t registers;         /* a thread */
  int32_t shared_bytes;      /* a block, static */
  int32_t stack_bytes;       /* a thread: arrays that are not in registers */
  int32_t spill_store_bytes; /* a thread */
  int32_t spill_load_bytes;
} fovea_kernel;

/* 0 when the library was built without the CUDA compiler. */
FOVEA_API int32_t fovea_kernel_count(void);
FOVEA_API fovea_status fovea_kernel_get(int32_t index, fovea_kernel* kernel);

#ifdef __cplusplus
}
#endif

#endif
