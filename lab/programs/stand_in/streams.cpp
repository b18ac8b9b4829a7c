// Streams and events of CUDA's runtime and driver in the emulator: all work runs in the order in
// which the program has asked for it.
#include <cstdint>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// Objects of the program, which it destroys by their handles. The handles 0, 1 and 2 are those of
// the default streams.
bool is_default(const Stream* stream) {
  return number_of(stream) <= 2;
}

int create_stream(const char* function, Stream** to, unsigned flags, int priority) {
  return runtime_call(function, [&](Gpu&) {
    store(to, new Stream{.flags = flags, .priority = priority});  // NOLINT(*-owning-memory)
  });
}

int destroy_stream(const char* function, Stream* stream) {
  return runtime_call(function, [&](Gpu& gpu) {
    if (is_default(stream)) {
      throw CallError{kInvalidHandle, "a default stream is destroyed"};
    }
    gpu.synchronize();
    delete stream;  // NOLINT(*-owning-memory)
  });
}

int synchronize(const char* function) {
  return runtime_call(function, [](Gpu& gpu) { gpu.synchronize(); });
}

int record(const char* function, Event* event) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.synchronize();
    event->time = std::chrono::steady_clock::now();
  });
}

int create_event(const char* function, Event** to) {
  return runtime_call(function, [&](Gpu&) { store(to, new Event()); });  // NOLINT(*-owning-memory)
}

int destroy_event(const char* function, const Event* event) {
  return runtime_call(function, [&](Gpu&) { delete event; });  // NOLINT(*-owning-memory)
}

int elapsed(const char* function, float* milliseconds, const Event* start, const Event* end) {
  return runtime_call(function, [&](Gpu&) {
    store(milliseconds, std::chrono::duration<float, std::milli>(end->time - start->time).count());
  });
}

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream*, int, void*);

// Calls the program's function once all work before it has run. The lock is not held meanwhile.
int call_host(const char* function, HostFunction host_function, void* data) {
  const int code = synchronize(function);
  if (code == kSuccess) {
    host_function(data);
  }
  return code;
}

int call_back(const char* function, Stream* stream, StreamCallback callback, void* data) {
  const int code = synchronize(function);
  callback(stream, code, data);
  return code;
}

int priority_of(const Stream* stream) {
  return is_default(stream) ? 0 : stream->priority;
}

}  // namespace

FOVEA_ENTRY cudaStreamCreate(Stream** to) {
  return create_stream(__func__, to, 0, 0);
}
FOVEA_ENTRY cudaStreamCreateWithFlags(Stream** to, unsigned flags) {
  return create_stream(__func__, to, flags, 0);
}
FOVEA_ENTRY cudaStreamCreateWithPriority(Stream** to, unsigned flags, int priority) {
  return create_stream(__func__, to, flags, priority);
}
FOVEA_ENTRY cudaStreamDestroy(Stream* stream) {
  return destroy_stream(__func__, stream);
}
FOVEA_ENTRY cudaStreamSynchronize(Stream* /*stream*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cudaStreamQuery(Stream* /*stream*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cudaStreamWaitEvent(Stream* /*stream*/, Event* /*event*/, unsigned /*flags*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaStreamGetFlags(const Stream* stream, unsigned* flags) {
  return runtime_call(__func__,
                      [&](Gpu&) { store(flags, is_default(stream) ? 0 : stream->flags); });
}
FOVEA_ENTRY cudaStreamGetPriority(const Stream* stream, int* priority) {
  return runtime_call(__func__, [&](Gpu&) { store(priority, priority_of(stream)); });
}
FOVEA_ENTRY cudaStreamGetId(const Stream* stream, unsigned long long* id) {
  return runtime_call(__func__, [&](Gpu&) { store(id, number_of(stream)); });
}
FOVEA_ENTRY cudaStreamGetDevice(const Stream* /*stream*/, int* device) {
  return runtime_call(__func__, [&](Gpu&) { store(device, 0); });
}
FOVEA_ENTRY cudaStreamIsCapturing(const Stream* /*stream*/, int* status) {
  return runtime_call(__func__, [&](Gpu&) { store(status, 0); });
}
FOVEA_ENTRY cudaStreamSetAttribute() {
  return kSuccess;
}
FOVEA_ENTRY cudaLaunchHostFunc(Stream* /*stream*/, HostFunction function, void* data) {
  return call_host(__func__, function, data);
}
FOVEA_ENTRY cudaStreamAddCallback(Stream* stream, StreamCallback callback, void* data,
                                  unsigned /*flags*/) {
  return call_back(__func__, stream, callback, data);
}
FOVEA_ENTRY cudaEventCreate(Event** to) {
  return create_event(__func__, to);
}
FOVEA_ENTRY cudaEventCreateWithFlags(Event** to, unsigned /*flags*/) {
  return create_event(__func__, to);
}
FOVEA_ENTRY cudaEventDestroy(const Event* event) {
  return destroy_event(__func__, event);
}
FOVEA_ENTRY cudaEventRecord(Event* event, Stream* /*stream*/) {
  return record(__func__, event);
}
FOVEA_ENTRY cudaEventRecordWithFlags(Event* event, Stream* /*stream*/, unsigned /*flags*/) {
  return record(__func__, event);
}
FOVEA_ENTRY cudaEventSynchronize(const Event* /*event*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cudaEventQuery(const Event* /*event*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cudaEventElapsedTime(float* milliseconds, const Event* start, const Event* end) {
  return elapsed(__func__, milliseconds, start, end);
}

FOVEA_ENTRY cuStreamCreate(Stream** to, unsigned flags) {
  return create_stream(__func__, to, flags, 0);
}
FOVEA_ENTRY cuStreamCreateWithPriority(Stream** to, unsigned flags, int priority) {
  return create_stream(__func__, to, flags, priority);
}
FOVEA_ENTRY cuStreamDestroy_v2(Stream* stream) {
  return destroy_stream(__func__, stream);
}
FOVEA_ENTRY cuStreamSynchronize(Stream* /*stream*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cuStreamQuery(Stream* /*stream*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cuStreamWaitEvent(Stream* /*stream*/, Event* /*event*/, unsigned /*flags*/) {
  return kSuccess;
}
FOVEA_ENTRY cuStreamGetFlags(const Stream* stream, unsigned* flags) {
  return cudaStreamGetFlags(stream, flags);
}
FOVEA_ENTRY cuStreamGetPriority(const Stream* stream, int* priority) {
  return cudaStreamGetPriority(stream, priority);
}
FOVEA_ENTRY cuStreamIsCapturing(const Stream* stream, int* status) {
  return cudaStreamIsCapturing(stream, status);
}
FOVEA_ENTRY cuLaunchHostFunc(Stream* /*stream*/, HostFunction function, void* data) {
  return call_host(__func__, function, data);
}
FOVEA_ENTRY cuStreamAddCallback(Stream* stream, StreamCallback callback, void* data,
                                unsigned /*flags*/) {
  return call_back(__func__, stream, callback, data);
}
FOVEA_ENTRY cuEventCreate(Event** to, unsigned /*flags*/) {
  return create_event(__func__, to);
}
FOVEA_ENTRY cuEventDestroy_v2(const Event* event) {
  return destroy_event(__func__, event);
}
FOVEA_ENTRY cuEventRecord(Event* event, Stream* /*stream*/) {
  return record(__func__, event);
}
FOVEA_ENTRY cuEventSynchronize(const Event* /*event*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cuEventQuery(const Event* /*event*/) {
  return synchronize(__func__);
}
FOVEA_ENTRY cuEventElapsedTime(float* milliseconds, const Event* start, const Event* end) {
  return elapsed(__func__, milliseconds, start, end);
}

FOVEA_ALIAS(cudaStreamSynchronize, cudaStreamSynchronize_ptsz)
FOVEA_ALIAS(cudaStreamQuery, cudaStreamQuery_ptsz)
FOVEA_ALIAS(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz)
FOVEA_ALIAS(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz)
FOVEA_ALIAS(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz)
FOVEA_ALIAS(cudaEventRecord, cudaEventRecord_ptsz)
FOVEA_ALIAS(cudaEventElapsedTime, cudaEventElapsedTime_v2)
FOVEA_ALIAS(cuStreamSynchronize, cuStreamSynchronize_ptsz)
FOVEA_ALIAS(cuStreamQuery, cuStreamQuery_ptsz)
FOVEA_ALIAS(cuStreamWaitEvent, cuStreamWaitEvent_ptsz)
FOVEA_ALIAS(cuEventRecord, cuEventRecord_ptsz)
FOVEA_ALIAS(cuEventElapsedTime, cuEventElapsedTime_v2)

}  // namespace fovea::programs
