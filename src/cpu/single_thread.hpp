// How many threads oneDNN's calls from this thread share.
#pragma once

extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace fovea::cpu {

/// oneDNN splits its work over OpenMP's threads. OpenMP's setting belongs to the calling thread and
/// is put back, for the thread may be a user's.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~OneDnnThreads() { omp_set_num_threads(before_); }
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

 private:
  int before_;
};

/// Fovea's threads each run primitives of their own: on this thread alone.
class SingleThread {
 private:
  OneDnnThreads one_{1};
};

}  // namespace fovea::cpu
