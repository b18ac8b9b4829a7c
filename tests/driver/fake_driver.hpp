// What the stand-in for NVIDIA's driver saw.
#pragma once

extern "C" {
/// The version that it says it is of: 13000 for CUDA 13.0, unless set.
void fake_driver_set_version(int version);
/// The compute capability of its GPUs, 90 for 9.0, which they have unless set.
void fake_driver_set_capability(int capability);
/// What loading a module says from now on: 0, unless set.
void fake_driver_set_load_result(int result);
/// The context of GPU `index`, which all of its users share.
void* fake_driver_context(int index);
/// Streams, events, graphs, allocations and modules not yet destroyed.
int fake_driver_alive();
/// Calls that needed a context and came while another one was current, or none.
int fake_driver_astray();

/// Whether a stream of somebody's is being captured, of the kind that refuses allocations, loading
/// and waiting on threads that have not asked to be let.
void fake_driver_set_capturing(bool capturing);
/// What was refused so; a real capture would be lost with it.
int fake_driver_spoilt();
/// The calling thread's capture mode: 0, global, unless it asked for another.
int fake_driver_capture_mode();

struct FakeLaunch {
  const char* kernel;
  void* stream;
  int dependent;  // programmatically, on the launch before it
  int ptx;        // its module was text
};
/// Kernels launched so far, by number from 0.
int fake_driver_launches();
FakeLaunch fake_driver_launch(int number);
}
