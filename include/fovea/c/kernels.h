/* The GPU kernels in libfovea.so, with the resources that the compiler reported for them. */
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
  int32_t registers;         /* per thread */
  int32_t shared_bytes;      /* static shared memory per CTA */
  int32_t stack_bytes;       /* per thread: arrays that are not in registers */
  int32_t spill_store_bytes; /* per thread */
  int32_t spill_load_bytes;  /* per thread */
} fovea_kernel;

/* The number of kernels; 0 when the library was built without the CUDA compiler. */
FOVEA_API int32_t fovea_kernel_count(void);
/* Kernel number `index`, from 0 on. Fails when there is no such kernel. */
FOVEA_API fovea_status fovea_kernel_get(int32_t index, fovea_kernel* kernel);

#ifdef __cplusplus
}
#endif

#endif
