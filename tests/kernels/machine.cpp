// The fibers, and who waits for whom.
#include "machine/machine.hpp"

#include <array>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <ucontext.h>

EmulatedIndex threadIdx;
EmulatedIndex blockIdx;
EmulatedIndex gridDim;

// Kernels find their dynamic shared memory by this name.
namespace fovea::attention {
alignas(1024) unsigned char memory[fovea::machine::kSharedBytes];
}  // namespace fovea::attention

namespace fovea::machine {
namespace {

using attention::memory;

constexpr std::size_t kStackBytes = std::size_t{1} << 17;
constexpr std::uint32_t kWarp = 32;
constexpr std::uint32_t kMostThreads = 1024;
constexpr int kMostIdleRounds = 100000;
constexpr int kMostTurns = 40;  // of a warp before the next one's

struct Copy {
  std::uint32_t to;
  const void* from;
  std::uint32_t bytes;
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  bool done = true;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

struct Meeting {
  std::uint32_t come = 0;
  std::uint64_t number = 0;
};

struct Machine {
  std::array<Fiber, kMostThreads> fibers;
  ucontext_t scheduler{};
  std::uint32_t current = 0;
  std::uint32_t threads = 0;
  Arrival arrival = Arrival::kLate;
  const std::function<void()>* body = nullptr;
  std::exception_ptr failure;
  std::array<std::array<Shown, kWarp>, kMostThreads / kWarp> shown{};
  std::array<Meeting, kMostThreads / kWarp> warps{};
  std::array<Meeting, 16> barriers{};
  std::uint64_t meetings = 0;
  std::mt19937 chance{1};
};

Machine& machine() {
  static Machine one;
  return one;
}

void meet_at(Meeting& meeting, std::uint32_t threads) {
  Machine& m = machine();
  const std::uint64_t number = meeting.number;
  if (++meeting.come == threads) {
    meeting.come = 0;
    ++meeting.number;
    ++m.meetings;
    return;
  }
  while (meeting.number == number) {
    Fiber& self = m.fibers[m.current];
    swapcontext(&self.context, &m.scheduler);
  }
}

void carry_out(const Copy& copy) {
  std::array<unsigned char, 16> bytes{};
  std::memcpy(bytes.data(), copy.from, copy.bytes);
  std::memcpy(shared(copy.to, 16), bytes.data(), bytes.size());
}

void enter() {
  Machine& m = machine();
  try {
    (*m.body)();
  } catch (...) {
    m.failure = std::current_exception();
  }
  Fiber& self = m.fibers[m.current];
  self.done = true;
  swapcontext(&self.context, &m.scheduler);
}

void prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    fiber.stack = std::make_unique<char[]>(kStackBytes);
  }
  fiber.done = false;
  fiber.open.clear();
  fiber.groups.clear();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = &machine().scheduler;
  makecontext(&fiber.context, enter, 0);
}

/// A warp's threads, each up to its next wait, in order from a lane drawn by chance.
std::uint32_t run_warp(std::uint32_t warp, std::uint32_t first_lane) {
  Machine& m = machine();
  std::uint32_t ended = 0;
  for (std::uint32_t i = 0; i < kWarp; ++i) {
    Fiber& fiber = m.fibers[warp * kWarp + (first_lane + i) % kWarp];
    if (!fiber.done) {
      m.current = warp * kWarp + (first_lane + i) % kWarp;
      threadIdx.x = m.current;
      swapcontext(&m.scheduler, &fiber.context);
      ended += fiber.done ? 1 : 0;
    }
  }
  return ended;
}

}  // namespace

void run_block(std::uint32_t block, std::uint32_t threads, Arrival arrival,
               const std::function<void()>& body) {
  Machine& m = machine();
  blockIdx.x = block;
  m.threads = threads;
  m.arrival = arrival;
  m.body = &body;
  m.failure = nullptr;
  m.warps = {};
  m.barriers = {};
  std::memset(memory, 0xFF, sizeof(memory));
  for (std::uint32_t i = 0; i < threads; ++i) {
    prepare(m.fibers.at(i));
  }
  std::vector<std::uint32_t> warps(threads / kWarp);
  for (std::uint32_t i = 0; i < warps.size(); ++i) {
    warps[i] = i;
  }
  int idle = 0;
  for (std::uint32_t left = threads; left > 0 && m.failure == nullptr;) {
    const std::uint64_t meetings = m.meetings;
    std::shuffle(warps.begin(), warps.end(), m.chance);
    std::uint32_t ended = 0;
    for (const std::uint32_t warp : warps) {
      for (std::uint32_t turns = 1 + m.chance() % kMostTurns; turns > 0; --turns) {
        ended += run_warp(warp, m.chance() % kWarp);
      }
    }
    left -= ended;
    idle = ended == 0 && meetings == m.meetings ? idle + 1 : 0;
    if (idle > kMostIdleRounds) {
      throw std::runtime_error("threads wait for each other for ever");
    }
  }
  if (m.failure != nullptr) {
    std::rethrow_exception(m.failure);
  }
}

std::uint32_t lane() {
  return machine().current % kWarp;
}

Shown* shown() {
  return machine().shown[machine().current / kWarp].data();
}

unsigned char* shared(std::uint32_t address, std::uint32_t bytes) {
  require_aligned(address, bytes);
  if (address + bytes > kSharedBytes) {
    throw std::runtime_error("shared memory at " + std::to_string(address));
  }
  return memory + address;
}

void require_aligned(std::uintptr_t address, std::uintptr_t bytes) {
  if (address % bytes != 0) {
    throw std::runtime_error("an access of " + std::to_string(bytes) + " bytes at " +
                             std::to_string(address));
  }
}

std::uint32_t address_of(const void* shared) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(shared) - memory);
}

void meet_warp() {
  meet_at(machine().warps[machine().current / kWarp], kWarp);
}

void meet(std::uint32_t barrier, std::uint32_t threads) {
  meet_at(machine().barriers.at(barrier), threads);
}

std::uint32_t threads_of_block() {
  return machine().threads;
}

void start_copy(std::uint32_t to, const void* from, std::uint32_t bytes) {
  require_aligned(reinterpret_cast<std::uintptr_t>(from), 16);
  const Copy copy{to, from, bytes};
  if (machine().arrival == Arrival::kAtOnce) {
    carry_out(copy);
  } else {
    machine().fibers[machine().current].open.push_back(copy);
  }
}

void end_group() {
  Fiber& self = machine().fibers[machine().current];
  self.groups.push_back(std::move(self.open));
  self.open.clear();
}

void wait_for_groups(std::size_t pending) {
  Fiber& self = machine().fibers[machine().current];
  while (self.groups.size() > pending) {
    std::ranges::for_each(self.groups.front(), carry_out);
    self.groups.pop_front();
  }
}

}  // namespace fovea::machine
