// ThreadSlot: a thread-local object, made when a thread first asks for it.
#pragma once

#include <memory>
#include <system_error>

#include <pthread.h>

#include "core/error.hpp"

namespace fovea {

/// Replaces `thread_local` where memory may have run out: get() then throws std::bad_alloc, whereas
/// the C library terminates the process when it cannot register a thread_local destructor. A slot
/// lives as long as the process; its objects are destroyed when their threads end.
template <typename T>
class ThreadSlot {
 public:
  ThreadSlot() {
    if (const int error = ::pthread_key_create(&key_, destroy); error != 0) {
      fail_for_resources("cannot create thread-local storage: {}",
                         std::generic_category().message(error));
    }
  }
  ThreadSlot(const ThreadSlot&) = delete;
  ThreadSlot& operator=(const ThreadSlot&) = delete;

  /// Returns the object of the calling thread.
  [[nodiscard]] T& get() {
    if (void* const existing = ::pthread_getspecific(key_); existing != nullptr) {
      return *static_cast<T*>(existing);
    }
    auto created = std::make_unique<T>();
    if (::pthread_setspecific(key_, created.get()) != 0) {
      throw std::bad_alloc();
    }
    return *created.release();
  }

 private:
  static void destroy(void* object) { std::default_delete<T>()(static_cast<T*>(object)); }

  pthread_key_t key_{};
};

}  // namespace fovea
