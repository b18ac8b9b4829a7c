// Memory of the emulated GPU, and the part of it that the host sees as well.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fovea_emulator/error.hpp"
#include "lab/emulation/memory_place.hpp"
#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// Content of memory that nothing has written, as on the emulated device: what the host has not
// changed is recognised by it.
constexpr int kUnwritten = 0xCB;
// What the host has changed is looked for, and counts as written, in units of this size.
constexpr std::size_t kUnitBytes = 256;

std::size_t round_up_to_page(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (std::max(bytes, std::size_t{1}) + page - 1) / page * page;
}

std::byte* host_pointer(std::uint64_t address) {
  return std::bit_cast<std::byte*>(address);
}

// Whether the process may read all bytes of the range.
bool is_mapped(std::uint64_t begin, std::uint64_t end) {
  std::ifstream maps("/proc/self/maps");  // in ascending order, "1000-3000 rw-p ..."
  for (std::string line; begin < end && std::getline(maps, line);) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const char* const text_end = line.data() + line.size();
    const auto low = std::from_chars(line.data(), text_end, first, 16);
    const auto high = low.ptr == text_end ? low : std::from_chars(low.ptr + 1, text_end, last, 16);
    if (first <= begin && begin < last && std::string_view(high.ptr, text_end).starts_with(" r")) {
      begin = last;
    }
  }
  return begin >= end;
}

}  // namespace

void Gpu::add_memory(const Memory& memory) {
  memory_[memory.address] = memory;
  used_bytes_ += memory.bytes;
  if (!memory.is_on_host()) {
    highest_device_address_ = std::max(highest_device_address_, memory.address + memory.bytes);
  }
}

void Gpu::check_room(std::size_t bytes) const {
  if (bytes > settings_.max_memory - std::min(settings_.max_memory, used_bytes_)) {
    throw CallError{kOutOfMemory,
                    fmt::format("an allocation of {} bytes does not fit into the {} MiB of the "
                                "emulated GPU, of which {} are in use; --most-memory allows more",
                                bytes, settings_.max_memory >> 20U, used_bytes_ >> 20U)};
  }
}

std::uint64_t Gpu::allocate(std::size_t bytes) {
  check_room(bytes);
  const std::uint64_t address = device_->allocate(bytes);
  add_memory({.address = address, .bytes = bytes, .number = ++allocations_});
  return address;
}

void* Gpu::allocate_on_host(std::size_t bytes, MemoryKind kind) {
  check_room(bytes);
  void* const address = mmap(nullptr, round_up_to_page(bytes), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {  // NOLINT(*-no-int-to-ptr,*-cstyle-cast): the system's macro
    throw CallError{kOutOfMemory, fmt::format("the host has no {} bytes", bytes)};
  }
  std::memset(address, kUnwritten, bytes);
  const auto number = std::bit_cast<std::uint64_t>(address);
  device_->allocate_at(number, bytes);
  add_memory({.address = number, .bytes = bytes, .kind = kind, .number = ++allocations_});
  return address;
}

void Gpu::register_host(void* address, std::size_t bytes) {
  check_room(bytes);
  const auto number = std::bit_cast<std::uint64_t>(address);
  if (bytes == 0 || bytes > UINT64_MAX - number || !is_mapped(number, number + bytes)) {
    throw CallError{kInvalidValue,
                    fmt::format("{} bytes at {:#x} are no memory of the program", bytes, number)};
  }
  const auto next = memory_.lower_bound(number + bytes);
  if (next != memory_.begin()) {
    const Memory& other = std::prev(next)->second;
    if (other.is_on_host() && other.bytes > 0 && other.address + other.bytes > number) {
      throw CallError{
          kHostMemoryRegistered,
          fmt::format("of {} bytes at {:#x} some are registered or page-locked already, "
                      "in {} bytes at {:#x}",
                      bytes, number, other.bytes, other.address)};
    }
  }
  try {
    device_->allocate_at(number, bytes);
  } catch (const emu::Error& error) {
    throw CallError{kInvalidValue, error.what()};
  }
  device_->write(number, {host_pointer(number), bytes});
  add_memory({.address = number,
              .bytes = bytes,
              .kind = MemoryKind::kRegistered,
              .number = ++allocations_});
}

void Gpu::unregister_host(void* address) {
  const auto number = std::bit_cast<std::uint64_t>(address);
  const auto found = memory_.find(number);
  if (found == memory_.end() || found->second.kind != MemoryKind::kRegistered) {
    throw CallError{kHostMemoryNotRegistered, "memory is unregistered that is not registered"};
  }
  used_bytes_ -= found->second.bytes;
  memory_.erase(found);
  device_->free(number);
}

void Gpu::free(std::uint64_t address) {
  if (address == 0) {
    return;
  }
  const auto found = memory_.find(address);
  if (found == memory_.end() || found->second.kind == MemoryKind::kRegistered ||
      found->second.kind == MemoryKind::kVariable) {
    throw CallError{kInvalidValue,
                    fmt::format("{:#x} is freed, but no allocation begins there", address)};
  }
  const Memory memory = found->second;
  used_bytes_ -= memory.bytes;
  memory_.erase(found);
  device_->free(address);
  if (memory.is_on_host()) {
    munmap(host_pointer(address), round_up_to_page(memory.bytes));
  }
}

void Gpu::note_variables(const std::vector<emu::VariableHandle>& variables) {
  for (const emu::VariableHandle& variable : variables) {
    add_memory(
        {.address = variable.address, .bytes = variable.bytes, .kind = MemoryKind::kVariable});
  }
}

const Memory* Gpu::find(std::uint64_t address) const {
  const auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) {
    return nullptr;
  }
  const Memory& memory = std::prev(after)->second;
  return address - memory.address < std::max(memory.bytes, std::size_t{1}) ? &memory : nullptr;
}

const Memory* Gpu::find_all(std::uint64_t address, std::size_t bytes, const char* what) const {
  constexpr std::uint64_t kFirstDeviceAddress = 0x10'0000'0000;
  const Memory* const memory = find(address);
  if (memory == nullptr) {
    if (address >= kFirstDeviceAddress && address < highest_device_address_) {
      throw CallError{kInvalidValue, fmt::format("{} {} bytes at {:#x}, which is not allocated",
                                                 what, bytes, address)};
    }
    return nullptr;
  }
  const std::uint64_t offset = address - memory->address;
  if (bytes > memory->bytes - offset) {
    throw CallError{kInvalidValue,
                    fmt::format("{} {} bytes at byte {} of {} bytes of memory ({})", what, bytes,
                                offset, memory->bytes, place_text(address))};
  }
  return memory;
}

void Gpu::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const Memory* const source = find_all(from, bytes, "a copy reads");
  const Memory* const target = find_all(to, bytes, "a copy writes");
  if (from == 0 || to == 0) {
    throw CallError{kInvalidValue, "a copy has a null address"};
  }
  const bool is_read_from_host = source == nullptr || source->is_on_host();
  const bool is_written_on_host = target == nullptr || target->is_on_host();
  if (is_read_from_host && is_written_on_host) {
    std::memmove(host_pointer(to), host_pointer(from), bytes);
  } else if (is_read_from_host) {
    device_->write(to, {host_pointer(from), bytes});
  } else if (is_written_on_host) {
    device_->read({host_pointer(to), bytes}, from);
  } else {
    device_->copy(to, from, bytes);
  }
}

void Gpu::fill(std::uint64_t to, std::span<const std::byte> value, std::size_t count) {
  const std::size_t bytes = bytes_of_rows(value.size(), count);
  if (bytes == 0) {
    return;
  }
  const Memory* const target = find_all(to, bytes, "a memset writes");
  if (target == nullptr) {
    throw CallError{kInvalidValue, fmt::format("a memset writes {} bytes at {:#x}, which is no "
                                               "memory of the GPU",
                                               bytes, to)};
  }
  std::vector<std::byte> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    content[i] = value[i % value.size()];
  }
  device_->write(to, content);
  if (target->is_on_host()) {
    std::ranges::copy(content, host_pointer(to));
  }
}

void Gpu::write_host_changes() {
  for (const auto& [address, memory] : memory_) {
    if (!memory.is_on_host()) {
      continue;
    }
    for (std::size_t begin = 0; begin < memory.bytes; begin += kUnitBytes) {
      const std::size_t size = std::min(kUnitBytes, memory.bytes - begin);
      const std::span<const std::byte> host(host_pointer(address + begin), size);
      if (!std::ranges::equal(host, device_->view(address + begin, size))) {
        device_->write(address + begin, host);
      }
    }
  }
}

void Gpu::read_device_changes() {
  for (const auto& [address, memory] : memory_) {
    if (memory.is_on_host()) {
      const std::span<const std::byte> content = device_->view(address, memory.bytes);
      if (!std::ranges::equal(content, std::span(host_pointer(address), memory.bytes))) {
        std::ranges::copy(content, host_pointer(address));
      }
    }
  }
}

std::string Gpu::place_text(std::uint64_t address) const {
  const auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) {
    return "";
  }
  const Memory& memory = std::prev(after)->second;
  const emulation::NamedMemory named{
      .begin = memory.address,
      .bytes = memory.bytes,
      .name = memory.kind == MemoryKind::kVariable
                  ? std::string("a variable")
                  : fmt::format("the program's allocation {}", memory.number)};
  return named.contains(address) ? fmt::format("byte {} of {}, which has {} bytes",
                                               address - named.begin, named.name, named.bytes)
                                 : emulation::text_beside(named, address);
}

}  // namespace fovea::programs
