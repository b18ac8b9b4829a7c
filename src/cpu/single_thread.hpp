// SingleThread: makes oneDNN's calls from this thread run on this thread alone.
#pragma once

extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace fovea::cpu {

/// oneDNN splits its work over OpenMP's threads; Fovea's threads each run primitives of their own.
/// OpenMP's setting belongs to the calling thread and is put back, for the thread may be a user's.
class SingleThread {
 public:
  SingleThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(before_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

}  // namespace fovea::cpu
